# distrun_folder(NAME
#   SOURCES files…      what the library distrun_NAME is made of
#   HEADERS files…      its part of include/distrun/: what users include
#   TESTS files…        thing_test.cc…, linked into the test program NAME_test
#   DEPENDS targets…    folders below this one, and packages: the list is the rule
#   BUILD_DEPENDS …     packages of headers that no header of the folder includes: users do without
#   TEST_DEPENDS …      what only the tests need
# )
# A folder of the architecture: one library, one test program whose GoogleTest cases are CTest's tests.  A thing_test.cc
# is a test and nothing else: the checks of sources leave it out.
include(GoogleTest)

add_library(distrun_warnings INTERFACE)
target_compile_options(distrun_warnings INTERFACE
  -Wall -Wextra -Wpedantic
  # Clang also reports names that another source of the same unity file declares at namespace scope.
  $<$<NOT:$<AND:$<CXX_COMPILER_ID:Clang>,$<BOOL:${CMAKE_UNITY_BUILD}>>>:-Wshadow>
  -Wno-missing-field-initializers  # Options are given as {.port = 0}; other members have defaults.
  $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>  # GCC 12 is wrong about every variant that holds a string.
  -Wnon-virtual-dtor -Wold-style-cast
  -Woverloaded-virtual -Wimplicit-fallthrough
  $<$<BOOL:${DISTRUN_WERROR}>:-Werror>)

# distrun_test(NAME [PROPERTY VALUE …])
# Makes CTest's tests from the GoogleTest cases of target NAME. Every test has a timeout.
function(distrun_test name)
  gtest_discover_tests(${name} TEST_PREFIX "${name}." DISCOVERY_TIMEOUT 600
    PROPERTIES TIMEOUT 120 ${ARGN})
endfunction()

# distrun_multirank_program(NAME SOURCES files… DEPENDS targets…)
# A test program that every rank of a run executes, with the tests of one or more stories. CTest's
# test NAME.filters fails if a test belongs to no story, or a story has no test.
function(distrun_multirank_program name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPENDS" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
  target_link_libraries(${name} PRIVATE ${arg_DEPENDS} distrun_no_name_look_up distrun_warnings GTest::gmock GTest::gtest_main)
  add_test(NAME ${name}.filters
    COMMAND "${CMAKE_COMMAND}" "-DPROGRAM=$<TARGET_FILE:${name}>"
      "-DFILTERS=$<JOIN:$<TARGET_PROPERTY:${name},DISTRUN_FILTERS>,|>"
      -P "${PROJECT_SOURCE_DIR}/cmake/multirank_filters.cmake")
  set_tests_properties(${name}.filters PROPERTIES TIMEOUT 120)
endfunction()

# distrun_multirank_test(NAME PROGRAM program FILTER filter…)
# A story of that program, by GoogleTest's filters: CTest's tests NAME.1, NAME.2 and NAME.3, on that
# many ranks.
function(distrun_multirank_test name)
  cmake_parse_arguments(arg "" "PROGRAM" "FILTER" ${ARGN})
  list(JOIN arg_FILTER ":" filter)
  set_property(TARGET ${arg_PROGRAM} APPEND PROPERTY DISTRUN_FILTERS "${filter}")
  foreach(ranks 1 2 3)
    distrun_launched_test(${name}.${ranks} --nproc-per-node ${ranks} $<TARGET_FILE:${arg_PROGRAM}> --gtest_filter=${filter})
  endforeach()
endfunction()

# distrun_launched_test(NAME ARGUMENT…)
# CTest's test NAME: runs `distrun launch ARGUMENT…` with a timeout.
function(distrun_launched_test name)
  set(processors 2)
  if("${ARGN}" MATCHES "--nproc-per-node[;=]1;")
    set(processors 1)
  endif()
  add_test(NAME ${name} COMMAND distrun launch --timeout 100 ${ARGN})
  set_tests_properties(${name} PROPERTIES TIMEOUT 120 PROCESSORS ${processors})
endfunction()

function(distrun_folder name)
  cmake_parse_arguments(arg "" "" "SOURCES;HEADERS;TESTS;DEPENDS;BUILD_DEPENDS;TEST_DEPENDS" ${ARGN})
  set(tests "${arg_SOURCES}")
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  if(tests)
    message(FATAL_ERROR "${tests} among the SOURCES of ${name}: name it otherwise, or move it to TESTS")
  endif()
  # Users link static or shared libraries, as BUILD_SHARED_LIBS says.
  set(kind STATIC)
  if(arg_HEADERS)
    set(kind "")
  endif()
  add_library(distrun_${name} ${kind} ${arg_SOURCES})
  add_library(distrun::${name} ALIAS distrun_${name})
  # With -fPIC, GCC otherwise inlines no function that a shared library could replace.
  target_compile_options(distrun_${name} PRIVATE -fno-semantic-interposition)
  set_target_properties(distrun_${name} PROPERTIES EXPORT_NAME ${name} INSTALL_RPATH "$ORIGIN;$<$<BOOL:${DISTRUN_LIBTORCH}>:${DISTRUN_LIBTORCH}/lib>")
  target_compile_features(distrun_${name} PUBLIC cxx_std_20)
  list(TRANSFORM arg_HEADERS PREPEND "${PROJECT_SOURCE_DIR}/include/distrun/")
  target_sources(distrun_${name} PUBLIC FILE_SET HEADERS BASE_DIRS "${PROJECT_SOURCE_DIR}/include" FILES ${arg_HEADERS})
  target_link_libraries(distrun_${name} PUBLIC ${arg_DEPENDS})
  foreach(target distrun_warnings ${arg_BUILD_DEPENDS})
    target_link_libraries(distrun_${name} PRIVATE "$<BUILD_INTERFACE:${target}>")
  endforeach()
  if(arg_TESTS AND BUILD_TESTING)
    add_executable(${name}_test ${arg_TESTS})
    set_target_properties(${name}_test PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
    target_link_libraries(${name}_test PRIVATE
      distrun_${name} ${arg_TEST_DEPENDS} distrun_warnings GTest::gmock GTest::gtest_main)
    distrun_test(${name}_test)
  endif()
endfunction()
