# Doubles of GPU drivers: build/<preset>/tests/fakegpu/libcuda.so.1 and others, for LD_LIBRARY_PATH.
set(FAKEGPU_DIR ${CMAKE_BINARY_DIR}/tests/fakegpu)
function(mn_fakegpu target name version)
  add_library(${target} SHARED ${ARGN})
  target_compile_options(${target} PRIVATE -fvisibility=default)
  target_link_libraries(${target} PRIVATE Threads::Threads)
  target_link_options(${target} PRIVATE LINKER:-z,nodelete)
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ${name} SOVERSION ${version}
                        VERSION ${version} LIBRARY_OUTPUT_DIRECTORY ${FAKEGPU_DIR})
endfunction()
mn_fakegpu(fakegpu_cuda cuda 1 tests/fakegpu/cuda.c tests/fakegpu/fakegpu.c)
mn_fakegpu(fakegpu_hip amdhip64 6 tests/fakegpu/hip.c tests/fakegpu/fakegpu.c)
mn_fakegpu(fakegpu_hsa hsa-runtime64 1 tests/fakegpu/hsa.c)
target_link_libraries(fakegpu_hsa PRIVATE fakegpu_hip)
