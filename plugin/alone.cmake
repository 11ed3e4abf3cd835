# What a plugin links statically and hidden, so that it loads in a container with libc alone and meets
# no other version of these libraries that an application brings. Debian's and Ubuntu's archives are
# compiled for position-independent executables. That suffices for a library too once their symbols
# are hidden, but for libc's streams, which such code reads where an executable has a copy of them:
# plugin/alone.c has that copy for the plugin.
set(ALONE_WRAP LINKER:--wrap=stdin LINKER:--wrap=stdout LINKER:--wrap=stderr)
set(ALONE_C ${CMAKE_SOURCE_DIR}/plugin/alone.c)

pkg_get_variable(NL_DIR libnl-3.0 libdir)
pkg_get_variable(YAML_DIR yaml-0.1 libdir)
find_library(NL_ROUTE_STATIC libnl-route-3.a HINTS ${NL_DIR})
find_library(NL_STATIC libnl-3.a HINTS ${NL_DIR})
find_library(YAML_STATIC libyaml.a HINTS ${YAML_DIR})
set(ALONE ${NL_ROUTE_STATIC} ${NL_STATIC} ${YAML_STATIC})

if(NL_ROUTE_STATIC AND NL_STATIC AND YAML_STATIC)
  file(WRITE ${CMAKE_BINARY_DIR}/alone_probe.c
       "struct nl_sock; struct nl_cache;
        int rtnl_link_alloc_cache(struct nl_sock *, int, struct nl_cache **);
        int rtnl_addr_alloc_cache(struct nl_sock *, struct nl_cache **);
        int yaml_parser_load(void *, void *); int main(void);
        int main(void) { return rtnl_link_alloc_cache(0, 0, 0) + rtnl_addr_alloc_cache(0, 0) +
                                yaml_parser_load(0, 0); }\n")
  try_compile(CAN_STAND_ALONE ${CMAKE_BINARY_DIR}/alone_probe
              SOURCES ${CMAKE_BINARY_DIR}/alone_probe.c ${ALONE_C}
              COMPILE_DEFINITIONS -fPIC
              LINK_OPTIONS -shared LINKER:--exclude-libs,ALL LINKER:-z,text ${ALONE_WRAP}
              LINK_LIBRARIES ${ALONE} OUTPUT_VARIABLE ALONE_SAYS)
endif()
option(MESHNET_ALONE "Plugins that need libc alone" ON)
if(NOT CAN_STAND_ALONE)
  message(STATUS "The plugins will need libnl and libyaml where they are loaded: there are no "
                 "archives of these that a library can take in")
  set(MESHNET_ALONE OFF)
endif()

# mn_topo's libraries: for whoever stands alone, and for all others.
set(ALONE_OR_SHARED PkgConfig::NL PkgConfig::YAML)
if(MESHNET_ALONE)
  set(ALONE_OR_SHARED
      "$<IF:$<BOOL:$<TARGET_PROPERTY:MN_ALONE>>,${ALONE},PkgConfig::NL;PkgConfig::YAML>")
endif()

function(mn_alone target)
  if(MESHNET_ALONE)
    set_target_properties(${target} PROPERTIES MN_ALONE ON)
    target_sources(${target} PRIVATE ${ALONE_C})
    target_link_options(${target} PRIVATE ${ALONE_WRAP})
  endif()
endfunction()
