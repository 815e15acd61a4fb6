# weft_test(name ROOM room SOURCES ... [LIBRARIES ...]): a GoogleTest binary, one CTest test, with
# a watchdog, labelled with its room.
# weft_tests(program ROOM room SOURCES ... [LIBRARIES ...]): a GoogleTest binary of several sources and, for
# each a_test.cpp or a_stress.cpp of them, a CTest test of that name of the suites that it defines: what is compiled
# together takes half as long, and is run and named as if it were not.
# weft_test_library(name STATIC|OBJECT ROOM room SOURCES ... [LIBRARIES ...]): what several programs of tests share.
# weft_job_test(name RANKS n COMMAND ...): a multi-process test, run through weftrun.
# weft_script_test(name SCRIPT file.py [ARGUMENTS ...]): a check of the house, in Python.
# weft_long_if_sanitized(test ...): tests that take long under a sanitizer and of which a shorter sibling runs
# there, too: `make asan` and `make tsan` leave them out, `make stress` does not.
# weft_long_under(address|thread test ...): the same under one of them.
# Programs may say ONLY address, thread or none: theirs are mistakes of the kind that this sanitizer finds, and but
# for `make stress` they are built and run under no other. MPI programs of one thread are ONLY address.
# weft_left_out_of_tsan(target ...): programs that only jobs of several processes run, which ThreadSanitizer takes
# for races.
find_package(GTest REQUIRED)
find_package(Python3 REQUIRED COMPONENTS Interpreter)
define_property(TARGET PROPERTY WEFT_LONG)
set(WEFT_TEST_TIMEOUT_S 300 CACHE STRING "Watchdog of one test, in seconds")

if(WEFT_LARGE_PIECES)
  file(WRITE ${PROJECT_BINARY_DIR}/test_headers.cpp "int main() {}\n")
  add_executable(weft_test_headers EXCLUDE_FROM_ALL ${PROJECT_BINARY_DIR}/test_headers.cpp)
  set_target_properties(weft_test_headers PROPERTIES WEFT_LIGHT ON)
  target_link_libraries(weft_test_headers PRIVATE weft_flags weft::weft GTest::gtest fmt::fmt)
  target_precompile_headers(weft_test_headers PRIVATE <algorithm> <atomic> <chrono> <functional>
    <memory> <mutex> <random> <string> <thread> <vector> <fmt/format.h> <gtest/gtest.h>
    <weft/weft.hpp>)
endif()

# What a program that says ONLY `sanitizer` is in this build.
function(weft_program_only program sanitizer)
  if(WEFT_SANITIZE AND sanitizer AND NOT sanitizer STREQUAL WEFT_SANITIZE)
    set_target_properties(${program} PROPERTIES WEFT_LONG ON)
    if(NOT WEFT_LONG_TESTS)
      set_target_properties(${program} PROPERTIES EXCLUDE_FROM_ALL ON)
    endif()
  endif()
endfunction()

# What every test of a program has: its watchdog and its labels.
function(weft_test_properties test program label)
  get_target_property(long ${program} WEFT_LONG)
  if(long)
    list(APPEND label long)
  endif()
  set_tests_properties(${test} PROPERTIES TIMEOUT ${WEFT_TEST_TIMEOUT_S} LABELS "${label}")
endfunction()

function(weft_test_target name)
  cmake_parse_arguments(ARG "" "ROOM;ONLY" "SOURCES;LIBRARIES" ${ARGN})
  target_sources(${name} PRIVATE ${ARG_SOURCES})
  if(WEFT_LARGE_PIECES)
    target_precompile_headers(${name} REUSE_FROM weft_test_headers)
  endif()
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${name} PRIVATE weft_flags weft::${ARG_ROOM} ${ARG_LIBRARIES}
    GTest::gtest fmt::fmt Threads::Threads)
endfunction()

function(weft_test_program name)
  cmake_parse_arguments(ARG "" "ONLY" "" ${ARGN})
  add_executable(${name})
  weft_test_target(${name} ${ARGN})
  target_link_libraries(${name} PRIVATE GTest::gtest_main)
  weft_program_only(${name} "${ARG_ONLY}")
endfunction()

function(weft_test_library name kind)
  add_library(${name} ${kind} EXCLUDE_FROM_ALL)
  weft_test_target(${name} ${ARGN})
  # As programs are compiled, whose precompiled headers it takes.
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${name} PRIVATE -fPIE)
endfunction()

function(weft_test name)
  weft_test_program(${name} ${ARGN})
  cmake_parse_arguments(ARG "" "ROOM" "" ${ARGN})
  add_test(NAME ${ARG_ROOM}.${name} COMMAND ${name})
  weft_test_properties(${ARG_ROOM}.${name} ${name} ${ARG_ROOM})
endfunction()

# weft_test_of(name ROOM room PROGRAM program SOURCES source ... [WITHOUT filter]): a CTest test
# room.name of what these sources of a program define, but for those cases that the filter matches.
function(weft_test_of name)
  cmake_parse_arguments(ARG "" "ROOM;PROGRAM;WITHOUT" "SOURCES" ${ARGN})
  set(filter "")
  foreach(source IN LISTS ARG_SOURCES)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${source})
    file(STRINGS ${source} cases REGEX "^(TYPED_)?TEST(_F|_P)?\\(")
    list(TRANSFORM cases REPLACE "^[A-Z_]+\\(([^,]*),.*$" "\\1")
    list(REMOVE_DUPLICATES cases)
    foreach(suite IN LISTS cases)
      string(APPEND filter ":${suite}.*:${suite}/*:*/${suite}.*")
    endforeach()
  endforeach()
  string(SUBSTRING "${filter}" 1 -1 filter)
  if(ARG_WITHOUT)
    string(APPEND filter "-${ARG_WITHOUT}")
  endif()
  add_test(NAME ${ARG_ROOM}.${name} COMMAND ${ARG_PROGRAM} "--gtest_filter=${filter}")
  weft_test_properties(${ARG_ROOM}.${name} ${ARG_PROGRAM} ${ARG_ROOM})
endfunction()

function(weft_tests program)
  weft_test_program(${program} ${ARGN})
  cmake_parse_arguments(ARG "" "ROOM;ONLY" "SOURCES;LIBRARIES" ${ARGN})
  list(FILTER ARG_SOURCES INCLUDE REGEX "_(test|stress)\\.cpp$")
  foreach(source IN LISTS ARG_SOURCES)
    string(REPLACE ".cpp" "" name ${source})
    weft_test_of(${name} ROOM ${ARG_ROOM} PROGRAM ${program} SOURCES ${source})
  endforeach()
endfunction()

function(weft_job_test name)
  cmake_parse_arguments(ARG "" "RANKS" "COMMAND" ${ARGN})
  add_test(NAME jobs.${name}.${ARG_RANKS}
    COMMAND $<TARGET_FILE:weftrun> -n ${ARG_RANKS} --timeout 100 ${ARG_COMMAND})
  set_tests_properties(jobs.${name}.${ARG_RANKS} PROPERTIES TIMEOUT 120 LABELS "jobs")
endfunction()

function(weft_long_if_sanitized)
  if(WEFT_SANITIZE)
    set_property(TEST ${ARGN} APPEND PROPERTY LABELS long)
  endif()
endfunction()

function(weft_long_under sanitizer)
  if(WEFT_SANITIZE STREQUAL sanitizer)
    weft_long_if_sanitized(${ARGN})
  endif()
endfunction()

function(weft_left_out_of_tsan)
  if(WEFT_SANITIZE STREQUAL "thread")
    set_target_properties(${ARGN} PROPERTIES EXCLUDE_FROM_ALL ON)
  endif()
endfunction()

function(weft_script_test name)
  cmake_parse_arguments(ARG "" "SCRIPT" "ARGUMENTS" ${ARGN})
  add_test(NAME house.${name}
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/${ARG_SCRIPT} ${ARG_ARGUMENTS}
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(house.${name} PROPERTIES TIMEOUT ${WEFT_TEST_TIMEOUT_S} LABELS "house"
    ENVIRONMENT PYTHONDONTWRITEBYTECODE=1)
endfunction()
