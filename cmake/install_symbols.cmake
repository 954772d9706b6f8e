# During an installation: puts the debug information of `program` into the folder in which gdb looks for its build ID.
execute_process(COMMAND "${readelf}" --notes "${program}" OUTPUT_VARIABLE notes COMMAND_ERROR_IS_FATAL ANY)
if(NOT notes MATCHES "Build ID: ([0-9a-f][0-9a-f])([0-9a-f]+)")
  message(FATAL_ERROR "${program} has no build ID: link it with -Wl,--build-id")
endif()
set(folder "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/lib/debug/.build-id/${CMAKE_MATCH_1}")
file(MAKE_DIRECTORY "${folder}")
execute_process(
  COMMAND "${objcopy}" --only-keep-debug --compress-debug-sections "${program}" "${folder}/${CMAKE_MATCH_2}.debug"
  COMMAND_ERROR_IS_FATAL ANY)
message(STATUS "Installing: ${folder}/${CMAKE_MATCH_2}.debug")
