# What init does, it does behind a carrier, too: the same programs once more, with one in between.
foreach(thing exec files stream tar search)
  add_test(NAME integration.carried_${thing} COMMAND integration_init_${thing}_test)
  set_tests_properties(integration.carried_${thing} PROPERTIES
    LABELS integration TIMEOUT 300 ENVIRONMENT "${CAISSON_TEST_ENVIRONMENT};CAISSON_INIT_CARRIED=1")
endforeach()
