# The allocator that fails when told, and what walks through the plugin with it.
add_library(nomem SHARED ${CMAKE_SOURCE_DIR}/tests/nomem/nomem.c)
set_target_properties(nomem PROPERTIES C_VISIBILITY_PRESET default
                      LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/nomem)
# It is the allocator: no sanitizer's instrumentation, no builtin knowledge of what it defines.
target_compile_options(nomem PRIVATE -fno-builtin -fno-sanitize=all -Wno-missing-prototypes)
target_link_libraries(nomem PRIVATE ${CMAKE_DL_LIBS} Threads::Threads)
add_executable(nomem_walk ${CMAKE_SOURCE_DIR}/tests/nomem/walk.c)
target_link_libraries(nomem_walk PRIVATE nomem ${CMAKE_DL_LIBS})
set_target_properties(nomem_walk PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
