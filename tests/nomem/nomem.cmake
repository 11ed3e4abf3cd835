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
add_executable(nomem_tuner ${CMAKE_SOURCE_DIR}/tests/nomem/tuner.c)
target_link_libraries(nomem_tuner PRIVATE nomem ${CMAKE_DL_LIBS})
set_target_properties(nomem_tuner PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)

# The network plugin without the tuner and the relay's ways, to look into: these alone may use what
# ends the process when memory does, under mn_memory_try().
set(NET_ABI_SRC ${ABI_SRC})
list(FILTER NET_ABI_SRC EXCLUDE REGEX "/tuner_v[0-9]+\\.c$")
mn_plugin_library(nomem_net exports-coll.map ${NET_ABI_SRC} ${CMAKE_SOURCE_DIR}/tests/nomem/tried.c)
set_target_properties(nomem_net PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/nomem)
