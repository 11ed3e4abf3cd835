# The reference plugin, and a copy of it for each row of faults.def with that row's fault.
include(tests/broken/copies.cmake)
set(BROKEN_DIR ${CMAKE_SOURCE_DIR}/tests/broken)
set(BROKEN_OUT ${CMAKE_BINARY_DIR}/tests/broken)
file(GLOB REF_SRC CONFIGURE_DEPENDS ${BROKEN_DIR}/*.c)
list(REMOVE_ITEM REF_SRC ${BROKEN_DIR}/vtables.c)
add_library(ref_parts OBJECT ${REF_SRC} ${CMAKE_SOURCE_DIR}/plugin/reduce.c)
mn_broken(FAULT_PLUGINS libnccl-net-ref libnccl-net-fault- ${BROKEN_DIR} FAULT_ROW ${BROKEN_OUT}
          ref_parts)
add_custom_target(broken DEPENDS ${FAULT_PLUGINS})

if(TARGET bench_check_test)
  add_dependencies(bench_check_test ${FAULT_PLUGINS})
  target_compile_definitions(bench_check_test PRIVATE PLUGIN_DIR="${BROKEN_OUT}"
                             FAULTS_DEF="${BROKEN_DIR}/faults.def")
endif()
foreach(test bench_check_remote_test bench_check_far_test)
  if(TARGET ${test})
    add_dependencies(${test} libnccl-net-ref)
    target_compile_definitions(${test} PRIVATE PLUGIN_DIR="${BROKEN_OUT}")
  endif()
endforeach()
