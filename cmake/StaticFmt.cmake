# Links `distrun` without shared libraries if this machine can (the compiler has static libraries,
# and no sanitizer needs a shared one): it then starts in about half the time, because nothing must
# be found and relocated, and can be copied to other machines.
#
#   DISTRUN_STATIC   whether it can
#   distrun_fmt      what links fmt: static then, else the machine's shared one
#   distrun_pugixml  what links pugixml: the static library if the machine has one, as Debian does
set(check "${PROJECT_SOURCE_DIR}/cmake/static_fmt.cc")
set(fmt_sources SOURCES "${check}")
set(fmt_definitions "")
# Later versions split their sources differently: headers suffice.
if(fmt_VERSION VERSION_GREATER_EQUAL 10)
  set(fmt_sources "")
  set(fmt_definitions -DFMT_HEADER_ONLY)
endif()
try_compile(DISTRUN_LINKS_STATIC
  ${fmt_sources}
  SOURCE_FROM_CONTENT main.cc "#include <fmt/format.h>\n#include <iostream>\n#include <thread>
int main(int argc, char**) { std::thread([&] { std::cout << fmt::format(\"{} {:.3}\", argc, 0.5); }).join(); }"
  COMPILE_DEFINITIONS ${fmt_definitions}
  LINK_OPTIONS -static
  LINK_LIBRARIES Threads::Threads
  CXX_STANDARD 20)
if(BUILD_SHARED_LIBS OR (TARGET pugixml::shared AND NOT TARGET pugixml::static))
  # distrun then links libdistrun_store.so; Fedora has no static pugixml.
  set(DISTRUN_LINKS_STATIC OFF)
endif()
# libdw and what it needs: bzip2, xz and zlib; newer versions also zstd.
set(DISTRUN_STATIC_LIBDW "")
foreach(library dw elf lzma bz2 z)
  find_library(DISTRUN_STATIC_LIB_${library} NAMES lib${library}.a)
  list(APPEND DISTRUN_STATIC_LIBDW "${DISTRUN_STATIC_LIB_${library}}")
  if(NOT DISTRUN_STATIC_LIB_${library})
    set(DISTRUN_LINKS_STATIC OFF)  # As on Fedora without elfutils-libelf-devel-static.
  endif()
endforeach()
find_library(DISTRUN_STATIC_LIB_minizip NAMES libminizip.a)
if(NOT DISTRUN_STATIC_LIB_minizip)
  set(DISTRUN_LINKS_STATIC OFF)
endif()
find_library(DISTRUN_STATIC_LIB_zstd NAMES libzstd.a)
if(DISTRUN_STATIC_LIB_zstd)
  list(APPEND DISTRUN_STATIC_LIBDW "${DISTRUN_STATIC_LIB_zstd}")
endif()
if(DISTRUN_LINKS_STATIC)
  # The static libdw of Debian 13 lacks functions that it calls. The libelf of later Debians defines
  # crc32(), as zlib does.
  try_compile(DISTRUN_LINKS_STATIC_LIBDW
    SOURCE_FROM_CONTENT libdw.cc "#include <elfutils/libdwfl.h>\n#include <minizip/unzip.h>\n#include <minizip/zip.h>
int main() {
  return dwfl_module_getdwarf(nullptr, nullptr) != nullptr || zipOpen(\"\", 0) != nullptr || unzOpen(\"\") != nullptr;
}"
    LINK_OPTIONS -static
    LINK_LIBRARIES "${DISTRUN_STATIC_LIB_minizip}" ${DISTRUN_STATIC_LIBDW})
  if(NOT DISTRUN_LINKS_STATIC_LIBDW)
    message(STATUS "distrun will need shared libraries: the static libdw and zlib of this machine do not link")
    set(DISTRUN_LINKS_STATIC OFF)
  endif()
endif()
option(DISTRUN_STATIC "Link distrun without shared libraries" ${DISTRUN_LINKS_STATIC})

if(DISTRUN_STATIC AND fmt_sources)
  add_library(distrun_fmt STATIC EXCLUDE_FROM_ALL "${check}")
elseif(DISTRUN_STATIC)
  add_library(distrun_fmt INTERFACE)
  target_compile_definitions(distrun_fmt INTERFACE ${fmt_definitions})
else()
  add_library(distrun_fmt INTERFACE)
  target_link_libraries(distrun_fmt INTERFACE fmt::fmt)
endif()

add_library(distrun_pugixml INTERFACE)
if(TARGET pugixml::static)
  target_link_libraries(distrun_pugixml INTERFACE pugixml::static)
else()
  target_link_libraries(distrun_pugixml INTERFACE pugixml::pugixml)
endif()
