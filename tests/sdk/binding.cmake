# Python without a server: the compiled module, by AumAI's names. Each file is one test; those that make sandboxes run
# one at a time, as those of the server do.
foreach(thing values sandboxes wheel)
  add_test(NAME sdk.binding_${thing}
    COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_SOURCE_DIR}/binding_${thing}_test.py)
  set_tests_properties(sdk.binding_${thing} PROPERTIES
    LABELS sdk TIMEOUT 300 SKIP_RETURN_CODE 77
    ENVIRONMENT "${CAISSON_TEST_ENVIRONMENT};CAISSON_BUILD=${CMAKE_BINARY_DIR};PYTHONPATH=${CAISSON_PYTHON_PATH}")
endforeach()
set_tests_properties(sdk.binding_sandboxes sdk.binding_wheel PROPERTIES RUN_SERIAL ON)
