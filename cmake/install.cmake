# `cmake --install build --prefix DIR`: the program, the libraries with their headers, and a CMake
# package.
#
#   bin/distrun, bin/distrun-suites
#   lib/libdistrun_*.a       or .so, with BUILD_SHARED_LIBS
#   include/distrun/         the public headers: #include <distrun/store_client.h>
#   lib/cmake/distrun/       find_package(distrun): cmake/distrunConfig.cmake.in
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(package "${CMAKE_INSTALL_LIBDIR}/cmake/distrun")

# Lists of targets: the second one can only be read where there is a LibTorch, the third where there
# is a GoogleTest besides.
set(distrunTargets distrun_common distrun_store)
if(TARGET distrun_backends)
  set(distrunBackendsTargets distrun_backends distrun_sharing distrun_parallel)
  install(FILES "${PROJECT_SOURCE_DIR}/cmake/LibTorch.cmake" DESTINATION "${package}")
endif()
if(TARGET distrun_testing)
  set(distrunTestingTargets distrun_test_protocol distrun_testing distrun_testing_main)
  install(TARGETS distrun-suites RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
endif()
foreach(list distrunTargets distrunBackendsTargets distrunTestingTargets)
  if(${list})
    install(TARGETS ${${list}} EXPORT ${list}
      ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}"
      LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}"
      FILE_SET HEADERS DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
    install(EXPORT ${list} NAMESPACE distrun:: DESTINATION "${package}")
  endif()
endforeach()
if(NOT DISTRUN_STATIC)
  set_property(TARGET distrun APPEND PROPERTY INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
endif()
install(TARGETS distrun RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")

configure_package_config_file(cmake/distrunConfig.cmake.in
  "${PROJECT_BINARY_DIR}/distrunConfig.cmake" INSTALL_DESTINATION "${package}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/distrunConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/distrunConfig.cmake" "${PROJECT_BINARY_DIR}/distrunConfigVersion.cmake"
  DESTINATION "${package}")

# What users do with it: programs of examples/library; a project whose own folders are called as ours; a shared library
# that Python loads; a project that has distrun within; shared libraries.
if(BUILD_TESTING)
  # distrun_user_test(NAME COMMAND…)
  function(distrun_user_test name)
    add_test(NAME ${name} COMMAND ${ARGN})
    set_tests_properties(${name} PROPERTIES TIMEOUT 300 ENVIRONMENT "CXX=${CMAKE_CXX_COMPILER}")
  endfunction()
  distrun_user_test(subproject "${PROJECT_SOURCE_DIR}/cmake/subproject_test.sh" $<TARGET_FILE:distrun> "${DISTRUN_LIBTORCH}")
  set(uses store own_common)
  foreach(library backends sharing parallel testing)
    if(TARGET distrun_${library})
      list(APPEND uses ${library})
    endif()
  endforeach()
  if(DISTRUN_TORCH_PYTHON AND TARGET distrun_parallel)
    list(APPEND uses python_module)
  endif()
  foreach(use IN LISTS uses)
    distrun_user_test(install.${use} "${PROJECT_SOURCE_DIR}/cmake/install_test.sh" "${PROJECT_BINARY_DIR}" ${use}
      "${DISTRUN_LIBTORCH}" "${DISTRUN_TORCH_PYTHON}")
  endforeach()
  find_package(Python3 COMPONENTS Interpreter REQUIRED)
  add_test(NAME include_rule COMMAND "${Python3_EXECUTABLE}" -B "${PROJECT_SOURCE_DIR}/cmake/check_includes_test.py")

  # The documentation: its text, and the commands of README and of the tutorials.
  add_test(NAME docs.checker COMMAND "${Python3_EXECUTABLE}" -B "${PROJECT_SOURCE_DIR}/cmake/check_docs_test.py")
  add_test(NAME docs.text COMMAND
    "${Python3_EXECUTABLE}" -B "${PROJECT_SOURCE_DIR}/cmake/check_docs.py" text $<TARGET_FILE:distrun>)
  # distrun_docs_test(NAME PAGE…)
  function(distrun_docs_test name)
    distrun_user_test(docs.${name} "${Python3_EXECUTABLE}" -B "${PROJECT_SOURCE_DIR}/cmake/check_docs.py"
      run "${PROJECT_BINARY_DIR}" --libtorch "${DISTRUN_LIBTORCH}" ${ARGN})
  endfunction()
  distrun_docs_test(launch docs/tutorials/launch.md docs/tutorials/from-torchrun.md)
  distrun_docs_test(store docs/tutorials/store.md)
  if(TARGET distrun_testing)
    distrun_docs_test(readme README.md)
    distrun_docs_test(test docs/tutorials/write-a-test.md)
    distrun_docs_test(train docs/tutorials/train-in-cpp.md)
  endif()
endif()
