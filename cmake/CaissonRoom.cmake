# caisson_room(NAME [DEPS target…]): one folder, one library. Every *.cc of the folder and its sub-folders belongs to
# it, but for *_test.cc, which become one test program caisson_NAME_test that needs no privileges.
# What `./dev sanitize` builds: the programs that need no privileges, and no more.
add_custom_target(caisson_unit_tests)

# Rooms whose files spend half of their compilation reading the same headers (precompiled.h).
set(CAISSON_PRECOMPILED_ROOMS http image egress_gate engine control doors_shared doors_proxy doors_preview doors_console
  doors_daiv doors_grpc doors_mcp doors_sandboxer doors_rest)

# caisson_precompile(NAME TARGET [HEADER…]): where the configuration wants it and the room is one of them.
function(caisson_precompile name target)
  if(NOT CAISSON_PCH OR NOT name IN_LIST CAISSON_PRECOMPILED_ROOMS)
    return()
  endif()
  set(headers ${PROJECT_SOURCE_DIR}/cmake/precompiled.h ${ARGN})
  if(name MATCHES "^doors_(proxy|preview|daiv|grpc|mcp|sandboxer|rest)$")
    list(APPEND headers ${PROJECT_SOURCE_DIR}/src/control/fleet.h ${PROJECT_SOURCE_DIR}/src/http/http.h)
  endif()
  target_precompile_headers(${target} PRIVATE ${headers})
endfunction()

function(caisson_room name)
  cmake_parse_arguments(ROOM "" "" "DEPS;EXCLUDE" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cc)
  set(tests ${sources})
  list(FILTER sources EXCLUDE REGEX "_test\\.cc$")
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  foreach(pattern IN LISTS ROOM_EXCLUDE)
    list(FILTER sources EXCLUDE REGEX "${pattern}")
    list(FILTER tests EXCLUDE REGEX "${pattern}")
  endforeach()
  if(sources)
    add_library(caisson_${name} STATIC ${sources})
    target_link_libraries(caisson_${name} PUBLIC caisson_flags ${ROOM_DEPS})
    caisson_precompile(${name} caisson_${name})
  else()
    add_library(caisson_${name} INTERFACE)
    target_link_libraries(caisson_${name} INTERFACE caisson_flags ${ROOM_DEPS})
  endif()
  if(tests)
    add_executable(caisson_${name}_test ${tests})
    target_link_libraries(caisson_${name}_test PRIVATE caisson_${name} GTest::gtest_main)
    caisson_precompile(${name} caisson_${name}_test <gtest/gtest.h>)
    set_target_properties(caisson_${name}_test PROPERTIES
      CAISSON_PLAIN ON RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
    add_test(NAME unit.${name} COMMAND caisson_${name}_test)
    add_dependencies(caisson_unit_tests caisson_${name}_test)
    set_tests_properties(unit.${name} PROPERTIES LABELS unit TIMEOUT 120)
  endif()
endfunction()
