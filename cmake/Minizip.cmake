# minizip, which is part of zlib and reads and writes zip files.
#
#   distrun_minizip   what links it: static in a static distrun, else the machine's shared one
find_path(DISTRUN_MINIZIP_INCLUDE minizip/zip.h)
find_library(DISTRUN_MINIZIP NAMES minizip)
foreach(path DISTRUN_MINIZIP_INCLUDE DISTRUN_MINIZIP)
  if(NOT ${path})
    message(FATAL_ERROR "minizip is missing: install libminizip-dev (Debian, Ubuntu) or minizip-compat-devel (Fedora)")
  endif()
endforeach()

add_library(distrun_minizip INTERFACE)
target_include_directories(distrun_minizip SYSTEM INTERFACE "${DISTRUN_MINIZIP_INCLUDE}")
if(DISTRUN_STATIC)
  target_link_libraries(distrun_minizip INTERFACE "${DISTRUN_STATIC_LIB_minizip}" "${DISTRUN_STATIC_LIB_z}")
else()
  find_package(ZLIB REQUIRED)
  target_link_libraries(distrun_minizip INTERFACE "${DISTRUN_MINIZIP}" ZLIB::ZLIB)
endif()
