# mn_broken(OUT CORRECT PREFIX DIR MACRO FOLDER PARTS): a correct library, and a copy of it for each row
# of DIR/faults.def with that row's fault, all in FOLDER; OUT becomes the targets. The copies are made
# when the correct one is linked, and know their row by their name; vtables.c is compiled anew for those
# rows alone that it knows, by number (FAULT == 3) or by name (IS(NAME_NULL)).
function(mn_broken out correct prefix dir macro folder parts)
  function(mn_broken_library target number fault)
    add_library(${target} MODULE ${dir}/vtables.c $<TARGET_OBJECTS:${parts}>)
    set_target_properties(${target} PROPERTIES PREFIX "" LIBRARY_OUTPUT_DIRECTORY ${folder})
    target_compile_definitions(${target} PRIVATE FAULT=${number} FAULT_IS_${fault})
    target_compile_options(${target} PRIVATE -g0)
    target_link_libraries(${target} PRIVATE Threads::Threads)
  endfunction()

  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${dir}/faults.def ${dir}/vtables.c)
  # Each library holds a copy of the parts: what nobody steps through makes two hundred of them slow.
  target_compile_options(${parts} PRIVATE -g0)
  file(READ ${dir}/vtables.c vtables)
  file(STRINGS ${dir}/faults.def rows REGEX "^${macro}\\(")
  mn_broken_library(${correct} 0 NONE)
  set(targets ${correct})
  set(number 0)
  foreach(row ${rows})
    math(EXPR number "${number} + 1")
    string(REGEX REPLACE "^${macro}.([A-Z0-9_]+),.*" "\\1" fault "${row}")
    if(vtables MATCHES "FAULT [!=]= ${number}[^0-9]|IS[(_]${fault}[^A-Z0-9_]")
      mn_broken_library(${prefix}${fault} ${number} ${fault})
      list(APPEND targets ${prefix}${fault})
    else()
      list(APPEND copies ${folder}/${prefix}${fault}.so)
    endif()
  endforeach()
  add_custom_command(TARGET ${correct} POST_BUILD BYPRODUCTS ${copies} VERBATIM
    COMMAND ${CMAKE_COMMAND} "-DFROM=$<TARGET_FILE:${correct}>" "-DTO=${copies}"
            -P ${CMAKE_SOURCE_DIR}/tests/broken/copy.cmake)
  set(${out} ${targets} PARENT_SCOPE)
endfunction()
