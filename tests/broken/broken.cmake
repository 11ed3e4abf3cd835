# The reference plugin, and a copy of it for each row of faults.def with that row's fault. The parts
# are compiled once and know the fault by a variable; only the vtables are compiled for each copy.
set(BROKEN_DIR ${CMAKE_SOURCE_DIR}/tests/broken)
set(BROKEN_OUT ${CMAKE_BINARY_DIR}/tests/broken)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${BROKEN_DIR}/faults.def)
file(STRINGS ${BROKEN_DIR}/faults.def FAULT_ROWS REGEX "^FAULT_ROW")
file(GLOB REF_SRC CONFIGURE_DEPENDS ${BROKEN_DIR}/*.c)
list(REMOVE_ITEM REF_SRC ${BROKEN_DIR}/vtables.c)
list(APPEND REF_SRC ${CMAKE_SOURCE_DIR}/plugin/reduce.c)
add_library(ref_parts OBJECT ${REF_SRC})
# Each library holds a copy of the parts: what nobody steps through makes two hundred of them slow.
target_compile_options(ref_parts PRIVATE -g0)

function(mn_ref_plugin target number)
  add_library(${target} MODULE ${BROKEN_DIR}/vtables.c $<TARGET_OBJECTS:ref_parts>)
  set_target_properties(${target} PROPERTIES PREFIX "" LIBRARY_OUTPUT_DIRECTORY ${BROKEN_OUT})
  target_compile_definitions(${target} PRIVATE FAULT=${number})
  target_compile_options(${target} PRIVATE -g0)
  target_link_libraries(${target} PRIVATE Threads::Threads)
endfunction()

mn_ref_plugin(libnccl-net-ref 0)
set(FAULT_NUMBER 0)
set(FAULT_PLUGINS libnccl-net-ref)
foreach(row ${FAULT_ROWS})
  math(EXPR FAULT_NUMBER "${FAULT_NUMBER} + 1")
  string(REGEX REPLACE "^FAULT_ROW.([A-Z0-9_]+),.*" "\\1" fault "${row}")
  mn_ref_plugin(libnccl-net-fault-${fault} ${FAULT_NUMBER})
  list(APPEND FAULT_PLUGINS libnccl-net-fault-${fault})
endforeach()
add_custom_target(broken DEPENDS ${FAULT_PLUGINS})

if(TARGET bench_check_test)
  add_dependencies(bench_check_test ${FAULT_PLUGINS})
  target_compile_definitions(bench_check_test PRIVATE PLUGIN_DIR="${BROKEN_OUT}"
                             FAULTS_DEF="${BROKEN_DIR}/faults.def")
endif()
