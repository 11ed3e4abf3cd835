# The plugin that harms its host: tests/verify-plugin.bats tells it how.
add_library(hostile MODULE ${CMAKE_SOURCE_DIR}/tests/hostile/hostile.c)
set_target_properties(hostile PROPERTIES PREFIX "" OUTPUT_NAME libnccl-net-hostile
                      LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/hostile)
target_include_directories(hostile PRIVATE ${CMAKE_SOURCE_DIR})
target_link_libraries(hostile PRIVATE Threads::Threads)
