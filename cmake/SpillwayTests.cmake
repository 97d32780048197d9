# SPDX-License-Identifier: Apache-2.0
# Tests are built by the target `tests` (the unit tests alone by `unit_tests`)
# and registered with ctest, one ctest test per program. Every gtest program
# leaves <build>/test-results/<program>.json, from which tools/tally.py counts
# the single cases.

set(SPILLWAY_TEST_RESULTS "${PROJECT_BINARY_DIR}/test-results")
file(MAKE_DIRECTORY "${SPILLWAY_TEST_RESULTS}")
add_custom_target(unit_tests)
add_custom_target(memory_tests)  # Of them, those for sanitizers in `make test`.
add_custom_target(tests)
add_dependencies(tests unit_tests)

# What nearly every test includes, compiled once.
set(headers_of_tests "${PROJECT_BINARY_DIR}/headers_of_tests.cc")
file(CONFIGURE OUTPUT "${headers_of_tests}" CONTENT "int main() {}\n")
add_executable(spillway_headers_of_tests EXCLUDE_FROM_ALL "${headers_of_tests}")
target_link_libraries(spillway_headers_of_tests PRIVATE spillway_flags GTest::gmock)
target_precompile_headers(spillway_headers_of_tests PRIVATE
  <algorithm> <chrono> <functional> <map> <memory> <optional> <string> <vector>
  <gmock/gmock.h> <gtest/gtest.h>)

# Tests are compiled for quick compiling; what they test is not.
function(spillway_quick_to_compile target)
  target_compile_options(${target} PRIVATE
    $<$<CONFIG:Release>:-O1> $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)
endfunction()
spillway_quick_to_compile(spillway_headers_of_tests)

# spillway_gtest(TARGET LABEL unit|crossing SOURCES... LINK...)
function(spillway_gtest target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "LABEL" "SOURCES;LINK")
  spillway_test_program(${target} SOURCES ${arg_SOURCES} LINK ${arg_LINK}
                        rapidcheck GTest::gmock GTest::gtest_main)
  spillway_quick_to_compile(${target})
  target_precompile_headers(${target} REUSE_FROM spillway_headers_of_tests)
  spillway_register_test(${target} LABEL ${arg_LABEL} COMMAND ${target})
  set_property(TEST ${target} APPEND PROPERTY ENVIRONMENT
               "GTEST_OUTPUT=json:${SPILLWAY_TEST_RESULTS}/${target}.json")
  if(arg_LABEL STREQUAL "unit")
    add_dependencies(unit_tests ${target})
  endif()
endfunction()

# spillway_test_program(TARGET SOURCES... LINK...): a program, built by `tests`.
function(spillway_test_program target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LINK")
  add_executable(${target} EXCLUDE_FROM_ALL ${arg_SOURCES})
  set_property(TARGET ${target} PROPERTY RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
  target_link_libraries(${target} PRIVATE spillway_flags ${arg_LINK})
  add_dependencies(tests ${target})
endfunction()

# spillway_register_test(NAME LABEL label COMMAND...)
function(spillway_register_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "LABEL" "COMMAND")
  add_test(NAME ${name} COMMAND ${arg_COMMAND} WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}")
  set_tests_properties(${name} PROPERTIES LABELS "${arg_LABEL}" TIMEOUT 1200)
endfunction()
