# The TypeScript package: its types, the contract, vitest against a real server; and the same modules in a browser.
foreach(thing typescript typescript_browser)
  add_test(NAME sdk.${thing} COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_SOURCE_DIR}/${thing}_test.py)
  set_tests_properties(sdk.${thing} PROPERTIES
    LABELS sdk TIMEOUT 600 SKIP_RETURN_CODE 77 RUN_SERIAL ON ENVIRONMENT "${CAISSON_TEST_ENVIRONMENT}")
endforeach()
