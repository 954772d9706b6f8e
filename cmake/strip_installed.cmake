# During an installation: strips `files` in `folder`, a path below the prefix or an absolute one, with `flag`.
foreach(file IN LISTS files)
  cmake_path(ABSOLUTE_PATH folder BASE_DIRECTORY "${CMAKE_INSTALL_PREFIX}" OUTPUT_VARIABLE path)
  execute_process(COMMAND "${strip}" "${flag}" "$ENV{DESTDIR}${path}/${file}" COMMAND_ERROR_IS_FATAL ANY)
endforeach()
