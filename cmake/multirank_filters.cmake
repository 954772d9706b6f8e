# cmake -DPROGRAM=program -DFILTERS="First*|Second*:Third*" -P multirank_filters.cmake
# Fails if a filter selects no test of the program, or if no filter selects a test.
cmake_minimum_required(VERSION 3.25)

# Sets `result` to the names of the tests that a filter selects.
function(list_tests filter result)
  execute_process(COMMAND "${PROGRAM}" --gtest_list_tests "--gtest_filter=${filter}"
    OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX REPLACE "[ ]*#[^\n]*" "" text "${text}")  # Values of parameters.
  string(REPLACE "\n" ";" lines "${text}")
  set(tests "")
  foreach(line IN LISTS lines)
    if(line MATCHES "^  (.+)$")
      list(APPEND tests "${suite}${CMAKE_MATCH_1}")
    elseif(line MATCHES "^[^ ]+[.]$")
      set(suite "${line}")
    endif()
  endforeach()
  set(${result} "${tests}" PARENT_SCOPE)
endfunction()

list_tests("*" left)
string(REPLACE "|" ";" filters "${FILTERS}")
foreach(filter IN LISTS filters)
  list_tests("${filter}" tests)
  if(NOT tests)
    message(SEND_ERROR "no test of ${PROGRAM} is selected by --gtest_filter=${filter}")
  endif()
  list(REMOVE_ITEM left ${tests})
endforeach()
if(left)
  list(JOIN left "\n  " text)
  message(SEND_ERROR "tests of ${PROGRAM} that no FILTER of a distrun_multirank_test() selects:\n  ${text}")
endif()
