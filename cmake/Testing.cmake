# weft_test(name ROOM room SOURCES ...): a GoogleTest binary, one CTest test, with a watchdog.
# weft_job_test(name RANKS n COMMAND ...): a multi-process test run through weftrun.
find_package(GTest REQUIRED)
set(WEFT_TEST_TIMEOUT_S 300 CACHE STRING "Watchdog of one test")

function(weft_test name)
  cmake_parse_arguments(ARG "" "ROOM" "SOURCES;LIBRARIES" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${name} PRIVATE weft_flags weft::${ARG_ROOM} ${ARG_LIBRARIES}
    GTest::gtest GTest::gtest_main fmt::fmt Threads::Threads)
  add_test(NAME ${ARG_ROOM}.${name} COMMAND ${name})
  set_tests_properties(${ARG_ROOM}.${name} PROPERTIES TIMEOUT ${WEFT_TEST_TIMEOUT_S} LABELS "${ARG_ROOM}")
endfunction()

function(weft_job_test name)
  cmake_parse_arguments(ARG "" "RANKS" "COMMAND" ${ARGN})
  add_test(NAME jobs.${name}.${ARG_RANKS}
    COMMAND $<TARGET_FILE:weftrun> -n ${ARG_RANKS} --timeout ${WEFT_TEST_TIMEOUT_S} ${ARG_COMMAND})
  set_tests_properties(jobs.${name}.${ARG_RANKS} PROPERTIES TIMEOUT ${WEFT_TEST_TIMEOUT_S} LABELS "jobs")
endfunction()
