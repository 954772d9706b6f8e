# `cmake --install build --prefix DIR`: the program, the libraries with their headers, and a CMake
# package.
#
#   component     what it installs
#   program       bin/distrun, its manual pages, shell completions and licences; with BUILD_SHARED_LIBS lib/libdistrun_*.so
#   development   lib/libdistrun_*.a, include/distrun/, lib/cmake/distrun/
#   suites        bin/distrun-suites
#   symbols       lib/debug/.build-id/: the debug information of the programs; only if asked for, by --component
#
# Programs and libraries are stripped (DISTRUN_INSTALL_STRIPPED).  distrun-suites and the libraries keep the names of
# functions, which stack traces show; distrun prints none of its own.  `cmake --install --strip` removes those too.
if(SKBUILD)  # The wheel's folders: see pyproject.toml.
  set(CMAKE_INSTALL_BINDIR "${SKBUILD_SCRIPTS_DIR}")
  set(CMAKE_INSTALL_DATAROOTDIR "${SKBUILD_DATA_DIR}/share")
endif()
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(package "${CMAKE_INSTALL_LIBDIR}/cmake/distrun")

# distrun_installed_code(COMPONENT SCRIPT NAME=VALUE…)
# Runs cmake/SCRIPT during the installation, with these variables, which share a scope with CMake's
# own code.
function(distrun_installed_code component script)
  set(code "")
  foreach(setting IN LISTS ARGN)
    string(REGEX MATCH "^([A-Za-z_]+)=(.*)$" matched "${setting}")
    string(APPEND code "set(${CMAKE_MATCH_1} [==[${CMAKE_MATCH_2}]==])\n")
  endforeach()
  string(APPEND code "include([==[${PROJECT_SOURCE_DIR}/cmake/${script}]==])")
  set(options COMPONENT ${component})
  if(component STREQUAL "symbols")
    list(APPEND options EXCLUDE_FROM_ALL)
  endif()
  install(CODE "${code}" ${options})
endfunction()

# distrun_strip_installed(COMPONENT FOLDER FILES FLAG)
# FLAG: what to strip.
function(distrun_strip_installed component folder files flag)
  if(DISTRUN_INSTALL_STRIPPED AND CMAKE_STRIP)
    foreach(file IN LISTS files)
      distrun_installed_code(${component} strip_installed.cmake
        "installed_folder=${folder}" "installed_file=${file}" "strip_flag=${flag}" "strip_tool=${CMAKE_STRIP}")
    endforeach()
  endif()
endfunction()

# distrun_install_program(TARGET COMPONENT FLAG)
function(distrun_install_program target component flag)
  target_link_options(${target} PRIVATE LINKER:--build-id)
  install(TARGETS ${target} RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT ${component})
  distrun_strip_installed(${component} "${CMAKE_INSTALL_BINDIR}" "$<TARGET_FILE_NAME:${target}>" ${flag})
  distrun_installed_code(symbols install_symbols.cmake
    "symbols_of=$<TARGET_FILE:${target}>" "objcopy_tool=${CMAKE_OBJCOPY}" "readelf_tool=${CMAKE_READELF}")
endfunction()

# Lists of targets. The second requires LibTorch, the third also GoogleTest.
set(distrunTargets distrun_common distrun_store)
if(TARGET distrun_backends)
  set(distrunBackendsTargets distrun_backends distrun_sharing distrun_parallel)
  install(FILES "${PROJECT_SOURCE_DIR}/cmake/LibTorch.cmake" DESTINATION "${package}" COMPONENT development)
endif()
if(TARGET distrun_testing)
  set(distrunTestingTargets distrun_test_protocol distrun_testing distrun_testing_main)
endif()
# distrun also needs shared libraries that users do not link.
set(library_component development)
if(BUILD_SHARED_LIBS)
  set(library_component program)
  if(NOT TARGET distrun_testing)
    install(TARGETS distrun_test_protocol LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT program)
    distrun_strip_installed(program "${CMAKE_INSTALL_LIBDIR}" "$<TARGET_FILE_NAME:distrun_test_protocol>" --strip-debug)
  endif()
endif()
foreach(list distrunTargets distrunBackendsTargets distrunTestingTargets)
  if(${list})
    install(TARGETS ${${list}} EXPORT ${list}
      ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT development
      LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT ${library_component}
      FILE_SET HEADERS DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" COMPONENT development)
    install(EXPORT ${list} NAMESPACE distrun:: DESTINATION "${package}" COMPONENT development)
    list(TRANSFORM ${list} REPLACE "(.+)" "$<TARGET_FILE_NAME:\\1>" OUTPUT_VARIABLE files)
    distrun_strip_installed(${library_component} "${CMAKE_INSTALL_LIBDIR}" "${files}" --strip-debug)
  endif()
endforeach()
if(NOT DISTRUN_STATIC)
  set_property(TARGET distrun APPEND PROPERTY INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
endif()
distrun_install_program(distrun program --strip-all)
if(TARGET distrun-suites)
  distrun_install_program(distrun-suites suites --strip-debug)
endif()

configure_package_config_file(cmake/distrunConfig.cmake.in
  "${PROJECT_BINARY_DIR}/distrunConfig.cmake" INSTALL_DESTINATION "${package}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/distrunConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/distrunConfig.cmake" "${PROJECT_BINARY_DIR}/distrunConfigVersion.cmake"
  DESTINATION "${package}" COMPONENT development)
include("${PROJECT_SOURCE_DIR}/packaging/program_files.cmake")
include("${PROJECT_SOURCE_DIR}/packaging/packages.cmake")

# Uses it as users do: programs of examples/library; a project with folders of the same names; a
# shared library that Python loads; a project that contains distrun; shared libraries.
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
  distrun_user_test(install.stripped "${PROJECT_SOURCE_DIR}/cmake/stripped_test.sh" "${PROJECT_BINARY_DIR}")
  find_package(Python3 COMPONENTS Interpreter REQUIRED)
  add_test(NAME manual
    COMMAND "${Python3_EXECUTABLE}" -B "${PROJECT_SOURCE_DIR}/packaging/make_manual_test.py" $<TARGET_FILE:distrun>)
  set_tests_properties(manual PROPERTIES TIMEOUT 120)
  foreach(shell bash zsh)
    add_test(NAME completions.${shell}
      COMMAND "${Python3_EXECUTABLE}" -B "${PROJECT_SOURCE_DIR}/packaging/completions_test.py" $<TARGET_FILE:distrun> ${shell})
    set_tests_properties(completions.${shell} PROPERTIES TIMEOUT 120 SKIP_RETURN_CODE 77)
  endforeach()
  add_test(NAME libtorch_versions COMMAND "${PROJECT_SOURCE_DIR}/cmake/libtorch_test.sh")
  add_test(NAME conan_recipe COMMAND "${Python3_EXECUTABLE}" -B "${PROJECT_SOURCE_DIR}/packaging/conan_test.py")
  add_test(NAME include_rule COMMAND "${Python3_EXECUTABLE}" -B "${PROJECT_SOURCE_DIR}/cmake/check_includes_test.py")
  add_test(NAME doxygen_filter COMMAND "${Python3_EXECUTABLE}" -B "${PROJECT_SOURCE_DIR}/cmake/doxygen_filter_test.py")

  # The documentation: its text, and the commands of README and of the tutorials.
  add_test(NAME docs.checker COMMAND "${Python3_EXECUTABLE}" -B "${PROJECT_SOURCE_DIR}/cmake/check_docs_test.py")
  add_test(NAME docs.text COMMAND
    "${Python3_EXECUTABLE}" -B "${PROJECT_SOURCE_DIR}/cmake/check_docs.py" text $<TARGET_FILE:distrun>)
  # distrun_docs_test(NAME PAGE…)
  function(distrun_docs_test name)
    distrun_user_test(docs.${name} "${Python3_EXECUTABLE}" -B "${PROJECT_SOURCE_DIR}/cmake/check_docs.py"
      run "${PROJECT_BINARY_DIR}" "--libtorch=${DISTRUN_LIBTORCH}" ${ARGN})
  endfunction()
  distrun_docs_test(launch docs/tutorials/launch.md docs/tutorials/from-torchrun.md)
  distrun_docs_test(hangs docs/hangs.md)
  distrun_docs_test(store docs/tutorials/store.md)
  if(TARGET distrun_testing)
    distrun_docs_test(readme README.md)
    distrun_docs_test(test docs/tutorials/write-a-test.md)
    distrun_docs_test(train docs/tutorials/train-in-cpp.md)
  endif()
endif()
