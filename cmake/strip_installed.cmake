# During an installation: strips `installed_file` in `installed_folder`, a path below the prefix or an absolute one.
cmake_path(ABSOLUTE_PATH installed_folder BASE_DIRECTORY "${CMAKE_INSTALL_PREFIX}")
execute_process(COMMAND "${strip_tool}" "${strip_flag}" "$ENV{DESTDIR}${installed_folder}/${installed_file}"
  COMMAND_ERROR_IS_FATAL ANY)
