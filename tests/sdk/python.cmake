# The Python client. What it says is compared with the contract and its own halves without a server; the rest is tried
# against a real one. The tests stand beside the package, in sdk/python/tests.
set(python_tests ${PROJECT_SOURCE_DIR}/sdk/python/tests)

foreach(thing contract wire types client async examples)
  add_test(NAME sdk.python_${thing} COMMAND ${Python3_EXECUTABLE} -B ${python_tests}/${thing}_test.py)
  set_tests_properties(sdk.python_${thing} PROPERTIES
    LABELS sdk TIMEOUT 300 SKIP_RETURN_CODE 77 ENVIRONMENT "${CAISSON_TEST_ENVIRONMENT}")
endforeach()
set_tests_properties(sdk.python_client sdk.python_async sdk.python_examples PROPERTIES RUN_SERIAL ON)
