# The libibverbs double: build/<preset>/tests/fakeverbs/libibverbs.so.1, for LD_LIBRARY_PATH; in
# fakeverbs-old the same without what a library may lack.
mn_glob(FAKEVERBS_SRC tests/fakeverbs/*.c)
add_library(fakeverbs_objects OBJECT ${FAKEVERBS_SRC})
target_compile_options(fakeverbs_objects PRIVATE -fvisibility=default
                       # Thread storage made when first touched ends the process where there is
                       # no memory for it.
                       -ftls-model=initial-exec)
set_target_properties(fakeverbs_objects PROPERTIES POSITION_INDEPENDENT_CODE ON)
function(mn_fakeverbs target exports folder)
  add_library(${target} SHARED $<TARGET_OBJECTS:fakeverbs_objects>)
  target_link_libraries(${target} PRIVATE Threads::Threads)
  target_link_options(${target} PRIVATE
                      LINKER:--version-script=${CMAKE_SOURCE_DIR}/tests/fakeverbs/${exports}
                      LINKER:-z,nodelete)
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ibverbs SOVERSION 1 VERSION 1
                        LINKER_LANGUAGE C
                        LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/${folder}
                        LINK_DEPENDS ${CMAKE_SOURCE_DIR}/tests/fakeverbs/${exports})
endfunction()
mn_fakeverbs(fakeverbs exports.map fakeverbs)
mn_fakeverbs(fakeverbs_old exports-old.map fakeverbs-old)

foreach(name fakeverbs_test unreliable_test channel_test links_test)
  add_executable(${name} ${CMAKE_SOURCE_DIR}/tests/fakeverbs/${name}.c)
  target_link_libraries(${name} PRIVATE fakeverbs)
  mn_unit(${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT 240
                       ENVIRONMENT LD_LIBRARY_PATH=${CMAKE_BINARY_DIR}/tests/fakeverbs)
endforeach()

# Units that need devices.
set_tests_properties(plugin_transport_verbs_gid_cache_test plugin_context_test
                     plugin_transport_verbs_verbs_join_test plugin_transport_verbs_verbs_weight_test plugin_transport_verbs_verbs_limits_test plugin_reopen_test plugin_wake_test
                     plugin_relay_hop_test plugin_transport_verbs_verbs_recover_test
                     plugin_transport_verbs_verbs_fence_test
                     PROPERTIES
                     ENVIRONMENT LD_LIBRARY_PATH=${CMAKE_BINARY_DIR}/tests/fakeverbs)
