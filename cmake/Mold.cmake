# Links with mold, which is several times faster than GNU ld, unless the user chose a linker: by CMAKE_LINKER_TYPE, by
# -fuse-ld in a variable of flags, or by DISTRUN_MOLD=OFF.
option(DISTRUN_MOLD "Link with mold if it is installed and no other linker is chosen" ON)
set(flags "${CMAKE_CXX_FLAGS} ${CMAKE_EXE_LINKER_FLAGS} ${CMAKE_SHARED_LINKER_FLAGS}")
if(DISTRUN_MOLD AND NOT CMAKE_LINKER_TYPE AND NOT flags MATCHES "-fuse-ld=|--ld-path=")
  include(CheckLinkerFlag)
  check_linker_flag(CXX -fuse-ld=mold DISTRUN_LINKS_WITH_MOLD)
  if(DISTRUN_LINKS_WITH_MOLD)
    add_link_options(-fuse-ld=mold)
  endif()
endif()
