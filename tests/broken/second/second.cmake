# The second correct plugin, a copy of it for each row of faults.def, and the driver that shows each
# of them to be broken, without the rules of verify-plugin.
set(SECOND_DIR ${BROKEN_DIR}/second)
file(GLOB ALT_SRC CONFIGURE_DEPENDS ${SECOND_DIR}/*.c)
list(REMOVE_ITEM ALT_SRC ${SECOND_DIR}/vtables.c)
add_library(alt_parts OBJECT ${ALT_SRC})
mn_broken(SECOND_PLUGINS libnccl-net-alt libnccl-net-second- ${SECOND_DIR} SECOND
          ${BROKEN_OUT}/second alt_parts)

file(GLOB SECOND_DRIVER CONFIGURE_DEPENDS ${SECOND_DIR}/drive/*.c)
add_executable(second ${SECOND_DRIVER})
target_compile_options(second PRIVATE -g0)
target_compile_definitions(second PRIVATE SECOND_OUT="${BROKEN_OUT}/second")
target_link_libraries(second PRIVATE Threads::Threads ${CMAKE_DL_LIBS})
set_target_properties(second PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
add_dependencies(second ${SECOND_PLUGINS})

if(TARGET bench_check_test)
  add_dependencies(bench_check_test ${SECOND_PLUGINS})
  target_compile_definitions(bench_check_test PRIVATE SECOND_DEF="${SECOND_DIR}/faults.def")
endif()
