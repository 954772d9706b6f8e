# During an installation: puts the debug information of the program `symbols_of` where gdb looks for
# its build ID.
execute_process(COMMAND "${readelf_tool}" --notes "${symbols_of}" OUTPUT_VARIABLE notes COMMAND_ERROR_IS_FATAL ANY)
if(NOT notes MATCHES "Build ID: ([0-9a-f][0-9a-f])([0-9a-f]+)")
  message(FATAL_ERROR "${symbols_of} has no build ID: link it with -Wl,--build-id")
endif()
set(symbols_file "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/lib/debug/.build-id/${CMAKE_MATCH_1}/${CMAKE_MATCH_2}.debug")
cmake_path(GET symbols_file PARENT_PATH folder_of_symbols)
file(MAKE_DIRECTORY "${folder_of_symbols}")
execute_process(
  COMMAND "${objcopy_tool}" --only-keep-debug --compress-debug-sections "${symbols_of}" "${symbols_file}"
  COMMAND_ERROR_IS_FATAL ANY)
file(CHMOD "${symbols_file}" PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
message(STATUS "Installing: ${symbols_file}")
