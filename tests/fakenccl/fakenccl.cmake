# Doubles of NCCL and RCCL: build/<preset>/tests/fakenccl/libnccl.so.2 and librccl.so.1.
function(mn_fakenccl name version driver)
  add_library(fakenccl_${name} SHARED tests/fakenccl/fakenccl.c tests/fakenccl/log.c
              tests/fakenccl/network.c tests/fakenccl/${driver}.c plugin/reduce.c)
  target_compile_options(fakenccl_${name} PRIVATE -fvisibility=default)
  target_link_libraries(fakenccl_${name} PRIVATE fakegpu_${driver} Threads::Threads
                        ${CMAKE_DL_LIBS} m)
  target_link_options(fakenccl_${name} PRIVATE LINKER:-z,nodelete)
  set_target_properties(fakenccl_${name} PROPERTIES OUTPUT_NAME ${name} SOVERSION ${version}
                        VERSION ${version}
                        LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/fakenccl)
endfunction()
mn_fakenccl(nccl 2 cuda)
mn_fakenccl(rccl 1 hip)
