# The correct tuner, and a copy of it for each row of faults.def with that row's fault.
set(TUNER_DIR ${BROKEN_DIR}/tuner)
add_library(tuner_parts OBJECT ${TUNER_DIR}/context.c ${TUNER_DIR}/decide.c)
mn_broken(TUNER_PLUGINS libnccl-tuner-ref libnccl-tuner-fault- ${TUNER_DIR} TUNER_ROW
          ${BROKEN_OUT}/tuner tuner_parts)

if(TARGET bench_check_test)
  add_dependencies(bench_check_test ${TUNER_PLUGINS})
  target_compile_definitions(bench_check_test PRIVATE TUNER_DEF="${TUNER_DIR}/faults.def")
endif()
