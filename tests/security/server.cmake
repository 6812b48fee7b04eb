# Attacks on a living server, in Python: tests/security/pNN_thing.py becomes the test security.pNN_thing. A server needs
# root; without it the test says so and is skipped.
find_package(Python3 3.10 REQUIRED COMPONENTS Interpreter)

file(GLOB attacks CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/security/p[0-9][0-9]_*.py)
foreach(attack IN LISTS attacks)
  get_filename_component(thing ${attack} NAME_WE)
  add_test(NAME security.${thing} COMMAND ${Python3_EXECUTABLE} -B ${attack})
  set_tests_properties(security.${thing} PROPERTIES
    LABELS security TIMEOUT 300 RUN_SERIAL ON SKIP_RETURN_CODE 77 ENVIRONMENT "${CAISSON_TEST_ENVIRONMENT}")
endforeach()
