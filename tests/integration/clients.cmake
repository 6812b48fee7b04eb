# Real clients through the way out of a sandbox, in Python: tests/integration/clients_thing.py becomes the test
# integration.clients_thing. Each has a network namespace of its own, which needs root.
find_package(Python3 3.10 REQUIRED COMPONENTS Interpreter)

file(GLOB clients CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/integration/clients_*.py)
foreach(client IN LISTS clients)
  get_filename_component(thing ${client} NAME_WE)
  add_test(NAME integration.${thing} COMMAND ${Python3_EXECUTABLE} -B ${client})
  set_tests_properties(integration.${thing} PROPERTIES
    LABELS integration TIMEOUT 300 SKIP_RETURN_CODE 77 ENVIRONMENT "${CAISSON_TEST_ENVIRONMENT}")
endforeach()
