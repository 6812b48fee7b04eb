# How tests become targets. A new test is a new file: nothing has to be listed.

set(CAISSON_TEST_DIR ${CMAKE_BINARY_DIR}/tests)
set(CAISSON_TEST_ENVIRONMENT
  CAISSON_BIN=${CMAKE_BINARY_DIR}/bin
  CAISSON_PAYLOAD=${CAISSON_TEST_DIR}/payload
  CAISSON_SOURCE=${PROJECT_SOURCE_DIR})

# caisson_test_programs(KIND [RUN_SERIAL]): tests/KIND/thing_test.cc becomes build/tests/KIND_thing_test, a program of
# its own, and the test KIND.thing with the label KIND.
function(caisson_test_programs kind)
  cmake_parse_arguments(PROGRAMS "RUN_SERIAL" "" "" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${kind}/*_test.cc)
  foreach(source IN LISTS sources)
    get_filename_component(stem ${source} NAME_WE)
    string(REGEX REPLACE "_test$" "" thing ${stem})
    set(target ${kind}_${stem})
    add_executable(${target} ${source})
    target_link_libraries(${target} PRIVATE caisson_test_support caisson_control caisson_http GTest::gtest_main)
    set_target_properties(${target} PROPERTIES CAISSON_PLAIN ON RUNTIME_OUTPUT_DIRECTORY ${CAISSON_TEST_DIR})
    add_dependencies(${target} caisson_payloads)
    # The tests drive the real programs, which are targets only where src/main is part of the build.
    foreach(program caisson caissond)
      if(TARGET ${program})
        add_dependencies(${target} ${program})
      endif()
    endforeach()
    add_test(NAME ${kind}.${thing} COMMAND ${target})
    set_tests_properties(${kind}.${thing} PROPERTIES
      LABELS ${kind} TIMEOUT 300 ENVIRONMENT "${CAISSON_TEST_ENVIRONMENT}")
    if(PROGRAMS_RUN_SERIAL)
      set_tests_properties(${kind}.${thing} PROPERTIES RUN_SERIAL ON)
    endif()
  endforeach()
endfunction()

# caisson_payloads(FOLDER): each *.c or *.cc of the folder becomes a static program build/tests/payload/<name>. They run
# inside sandboxes whose root may be empty, so they bring everything along: musl, no interpreter, no libstdc++.
function(caisson_payloads folder)
  find_program(CAISSON_MUSL_GCC musl-gcc REQUIRED)
  set(flags -static -Os -Wall -Wextra -Werror -fno-asynchronous-unwind-tables -s
    # musl-gcc hides the kernel's headers; after musl's own they do no harm.
    -idirafter /usr/include -idirafter /usr/include/${CMAKE_SYSTEM_PROCESSOR}-linux-gnu)
  file(GLOB sources CONFIGURE_DEPENDS ${folder}/*.c ${folder}/*.cc)
  set(outputs)
  foreach(source IN LISTS sources)
    get_filename_component(name ${source} NAME_WE)
    get_filename_component(extension ${source} EXT)
    if(extension STREQUAL ".cc")
      set(language -x c++ -std=c++20 -fno-exceptions -fno-rtti)
    else()
      set(language -x c -std=gnu17)
    endif()
    set(output ${CAISSON_TEST_DIR}/payload/${name})
    add_custom_command(OUTPUT ${output}
      COMMAND ${CMAKE_COMMAND} -E make_directory ${CAISSON_TEST_DIR}/payload
      COMMAND ${CAISSON_MUSL_GCC} ${flags} ${language} ${source} -o ${output}
      DEPENDS ${source} COMMENT "Building static payload ${name}" VERBATIM)
    list(APPEND outputs ${output})
  endforeach()
  add_custom_target(caisson_payloads ALL DEPENDS ${outputs})
endfunction()

# caisson_fuzz_target(SOURCE): tests/fuzz/thing_fuzz.cc becomes the program fuzz_thing and the test fuzz.thing, which
# replays tests/fuzz/corpus/thing. With CAISSON_FUZZ it is a libFuzzer program; without, a small main() replays the
# same corpus, so an ordinary test run covers every input that ever mattered.
function(caisson_fuzz_target source)
  get_filename_component(stem ${source} NAME_WE)
  string(REGEX REPLACE "_fuzz$" "" thing ${stem})
  set(target fuzz_${thing})
  set(corpus ${CMAKE_CURRENT_SOURCE_DIR}/corpus/${thing})
  if(NOT IS_DIRECTORY ${corpus})
    message(FATAL_ERROR "the fuzz target '${thing}' has no corpus: tests/fuzz/corpus/${thing} holds one file or more")
  endif()
  if(CAISSON_FUZZ)
    add_executable(${target} ${source})
    target_link_options(${target} PRIVATE -fsanitize=fuzzer)
    set(arguments -runs=0)
  else()
    add_executable(${target} ${source} ${CMAKE_CURRENT_SOURCE_DIR}/standalone_main.cc)
    set(arguments)
  endif()
  # The parsers of egress need nothing else, and so they build in a moment.
  if(thing MATCHES "^egress_")
    target_link_libraries(${target} PRIVATE caisson_egress_wire)
  else()
    target_link_libraries(${target} PRIVATE caisson_control caisson_http)
  endif()
  set_target_properties(${target} PROPERTIES CAISSON_PLAIN ON RUNTIME_OUTPUT_DIRECTORY ${CAISSON_TEST_DIR})
  add_dependencies(caisson_unit_tests ${target})
  add_test(NAME fuzz.${thing} COMMAND ${target} ${arguments} ${corpus})
  set_tests_properties(fuzz.${thing} PROPERTIES LABELS fuzz TIMEOUT 120)
endfunction()
