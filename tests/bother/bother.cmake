# For LD_PRELOAD: what an application or its host does beside the plugin.
add_library(bother MODULE tests/bother/bother.c)
set_target_properties(bother PROPERTIES PREFIX "" C_VISIBILITY_PRESET default LIBRARY_OUTPUT_DIRECTORY
                      ${CMAKE_BINARY_DIR}/tests)
target_compile_options(bother PRIVATE -fno-sanitize=all -Wno-missing-prototypes)
target_link_libraries(bother PRIVATE ${CMAKE_DL_LIBS} Threads::Threads)
