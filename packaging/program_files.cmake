# Manual pages, made from `distrun --help`, and shell completions: part of the component `program`.
find_package(Python3 3.9 COMPONENTS Interpreter)
set(manual "${PROJECT_BINARY_DIR}/manual")
if(Python3_FOUND)
  add_custom_command(OUTPUT "${manual}/distrun.1"
    COMMAND "${Python3_EXECUTABLE}" -B "${CMAKE_CURRENT_LIST_DIR}/make_manual.py" $<TARGET_FILE:distrun> "${manual}"
    DEPENDS distrun "${CMAKE_CURRENT_LIST_DIR}/make_manual.py"
    VERBATIM)
  add_custom_target(distrun_manual ALL DEPENDS "${manual}/distrun.1")
  # None exist if only the target `distrun` was built.
  install(DIRECTORY "${manual}/" DESTINATION "${CMAKE_INSTALL_MANDIR}/man1" COMPONENT program OPTIONAL)
else()
  message(STATUS "No Python 3: no manual pages")
  add_custom_target(distrun_manual)
endif()

set(DISTRUN_ZSH_COMPLETIONS "${CMAKE_INSTALL_DATADIR}/zsh/site-functions" CACHE STRING "Folder of the completion for zsh, below the prefix")
install(FILES "${CMAKE_CURRENT_LIST_DIR}/completions/distrun.bash" RENAME distrun
  DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions" COMPONENT program)
install(FILES "${CMAKE_CURRENT_LIST_DIR}/completions/distrun.zsh" RENAME _distrun
  DESTINATION "${DISTRUN_ZSH_COMPLETIONS}" COMPONENT program)
if(NOT SKBUILD)  # Wheels have their licences elsewhere.
  install(FILES "${CMAKE_CURRENT_LIST_DIR}/copyright" DESTINATION "${CMAKE_INSTALL_DOCDIR}" COMPONENT program)
endif()

# Makes `distrun launch --collectives` see Python workers: in a wheel, beside the package.
if(SKBUILD)
  install(FILES "${CMAKE_CURRENT_LIST_DIR}/python/distrun_collectives.pth" DESTINATION "${SKBUILD_PLATLIB_DIR}" COMPONENT program)
  # What distrun.shm compiles.
  file(STRINGS "${CMAKE_CURRENT_LIST_DIR}/python/distrun/shm/sources.txt" sources)
  foreach(source IN LISTS sources)
    cmake_path(GET source PARENT_PATH folder)
    install(FILES "${PROJECT_SOURCE_DIR}/${source}"
      DESTINATION "${SKBUILD_PLATLIB_DIR}/distrun/shm/sources/${folder}" COMPONENT program)
  endforeach()
endif()
