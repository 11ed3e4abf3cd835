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

add_executable(fakeverbs_test ${CMAKE_SOURCE_DIR}/tests/fakeverbs/fakeverbs_test.c)
target_link_libraries(fakeverbs_test PRIVATE fakeverbs PkgConfig::CMOCKA)
set_target_properties(fakeverbs_test PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
add_test(NAME fakeverbs_test COMMAND fakeverbs_test)
set_tests_properties(fakeverbs_test PROPERTIES TIMEOUT 240
                     ENVIRONMENT LD_LIBRARY_PATH=${CMAKE_BINARY_DIR}/tests/fakeverbs)
