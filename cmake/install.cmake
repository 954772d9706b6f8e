# `cmake --install build --prefix DIR`: the program, the libraries with their headers, and a CMake
# package.
#
#   bin/distrun, bin/distrun-suites
#   lib/libdistrun_*.a
#   include/distrun/         beneath it as here: #include "include/distrun/store_client.h"
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
      FILE_SET HEADERS DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
    install(EXPORT ${list} NAMESPACE distrun:: DESTINATION "${package}")
  endif()
endforeach()
install(TARGETS distrun RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")

configure_package_config_file(cmake/distrunConfig.cmake.in
  "${PROJECT_BINARY_DIR}/distrunConfig.cmake" INSTALL_DESTINATION "${package}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/distrunConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/distrunConfig.cmake" "${PROJECT_BINARY_DIR}/distrunConfigVersion.cmake"
  DESTINATION "${package}")

# A program that is built against what has been installed, and runs; a project that has distrun within.
if(BUILD_TESTING)
  add_test(NAME subproject COMMAND "${PROJECT_SOURCE_DIR}/cmake/subproject_test.sh" "${DISTRUN_LIBTORCH}")
  set_tests_properties(subproject PROPERTIES TIMEOUT 300 ENVIRONMENT "CXX=${CMAKE_CXX_COMPILER}")
  foreach(library store backends sharing parallel testing)
    if(TARGET distrun_${library})
      add_test(NAME install.${library}
        COMMAND "${PROJECT_SOURCE_DIR}/cmake/install_test.sh" "${PROJECT_BINARY_DIR}" ${library} "${DISTRUN_LIBTORCH}")
      set_tests_properties(install.${library} PROPERTIES TIMEOUT 300 ENVIRONMENT "CXX=${CMAKE_CXX_COMPILER}")
    endif()
  endforeach()
endif()
