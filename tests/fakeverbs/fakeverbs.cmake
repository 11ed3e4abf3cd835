# The libibverbs double: build/<preset>/tests/fakeverbs/libibverbs.so.1, for LD_LIBRARY_PATH.
mn_glob(FAKEVERBS_SRC tests/fakeverbs/*.c)
add_library(fakeverbs SHARED ${FAKEVERBS_SRC})
target_compile_options(fakeverbs PRIVATE -fvisibility=default)
target_link_libraries(fakeverbs PRIVATE Threads::Threads)
target_link_options(fakeverbs PRIVATE
                    LINKER:--version-script=${CMAKE_SOURCE_DIR}/tests/fakeverbs/exports.map
                    LINKER:-z,nodelete)
set_target_properties(fakeverbs PROPERTIES OUTPUT_NAME ibverbs SOVERSION 1 VERSION 1
                      LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/fakeverbs
                      LINK_DEPENDS ${CMAKE_SOURCE_DIR}/tests/fakeverbs/exports.map)

foreach(name fakeverbs_test unreliable_test)
  add_executable(${name} ${CMAKE_SOURCE_DIR}/tests/fakeverbs/${name}.c)
  target_link_libraries(${name} PRIVATE fakeverbs PkgConfig::CMOCKA)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT 240
                       ENVIRONMENT LD_LIBRARY_PATH=${CMAKE_BINARY_DIR}/tests/fakeverbs)
endforeach()
