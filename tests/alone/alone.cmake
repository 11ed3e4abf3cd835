# verify-plugin in a program that needs libc and cJSON alone: build/<preset>/tests/judge.
add_executable(judge tests/alone/judge.c)
target_link_libraries(judge PRIVATE mn_cli)
target_link_options(judge PRIVATE LINKER:--gc-sections)
set_target_properties(judge PROPERTIES MN_ALONE ON RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
