# The reference plugin, and one copy of it for each row of faults.def with that row's fault.
set(PLUGIN_DIR ${CMAKE_SOURCE_DIR}/tests/plugins)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PLUGIN_DIR}/faults.def)
file(STRINGS ${PLUGIN_DIR}/faults.def FAULT_ROWS REGEX "^FAULT_ROW")

function(mn_ref_plugin target)
  add_library(${target} MODULE ${PLUGIN_DIR}/ref.c)
  set_target_properties(${target} PROPERTIES PREFIX ""
                        LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/plugins)
  target_compile_definitions(${target} PRIVATE ${ARGN})
  # Each copy leaves parts of the code unused, and some faults are what a compiler warns about.
  target_compile_options(${target} PRIVATE -w -O1 -g0)
  target_link_libraries(${target} PRIVATE Threads::Threads)
endfunction()

mn_ref_plugin(libnccl-net-ref)
set(FAULT_NUMBER 0)
set(FAULT_PLUGINS libnccl-net-ref)
foreach(row ${FAULT_ROWS})
  math(EXPR FAULT_NUMBER "${FAULT_NUMBER} + 1")
  string(REGEX REPLACE "^FAULT_ROW.([A-Z0-9_]+),.*" "\\1" fault "${row}")
  mn_ref_plugin(libnccl-net-fault-${fault} FAULT=${FAULT_NUMBER})
  list(APPEND FAULT_PLUGINS libnccl-net-fault-${fault})
endforeach()

if(TARGET bench_check_test)
  add_dependencies(bench_check_test ${FAULT_PLUGINS})
  target_compile_definitions(bench_check_test PRIVATE
                             PLUGIN_DIR="${CMAKE_BINARY_DIR}/tests/plugins"
                             FAULTS_DEF="${PLUGIN_DIR}/faults.def")
endif()
