# elfutils' libdw, which reads the stacks of processes and the names of functions.
#
#   distrun_libdw   what links it: static in a static distrun, else the machine's shared one
find_path(DISTRUN_LIBDW_INCLUDE elfutils/libdwfl.h)
find_library(DISTRUN_LIBDW NAMES dw)
find_library(DISTRUN_LIBELF NAMES elf)
foreach(path DISTRUN_LIBDW_INCLUDE DISTRUN_LIBDW DISTRUN_LIBELF)
  if(NOT ${path})
    message(FATAL_ERROR "elfutils' libdw is missing: install libdw-dev (Debian, Ubuntu) or elfutils-devel (Fedora)")
  endif()
endforeach()

add_library(distrun_libdw INTERFACE)
target_include_directories(distrun_libdw SYSTEM INTERFACE "${DISTRUN_LIBDW_INCLUDE}")
if(DISTRUN_STATIC)
  target_link_libraries(distrun_libdw INTERFACE ${DISTRUN_STATIC_LIBDW})
else()
  target_link_libraries(distrun_libdw INTERFACE "${DISTRUN_LIBDW}" "${DISTRUN_LIBELF}")
endif()
