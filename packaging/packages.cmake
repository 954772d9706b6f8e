# CPack: a Debian package for each component, and one tarball.  `make deb` and `make tarball` use the preset `package`.
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_PACKAGE_VENDOR "the distrun authors")
set(CPACK_PACKAGE_CONTACT "the distrun authors <distrun@localhost.localdomain>")
set(CPACK_COMPONENTS_ALL program development symbols)
if(TARGET distrun-suites)
  list(APPEND CPACK_COMPONENTS_ALL suites)
endif()

# The tarball: one folder with bin/, lib/, include/ and share/, without symbols.
string(TOLOWER "${CMAKE_SYSTEM_NAME}-${CMAKE_SYSTEM_PROCESSOR}" system)
set(CPACK_PACKAGE_FILE_NAME "distrun-${PROJECT_VERSION}-${system}")
set(CPACK_ARCHIVE_COMPONENT_INSTALL OFF)

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_PRE_BUILD_SCRIPTS "${CMAKE_CURRENT_LIST_DIR}/debian_files.cmake")
set(CPACK_DISTRUN_PACKAGING "${CMAKE_CURRENT_LIST_DIR}")

set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME distrun)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SECTION net)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SUGGESTS python3)
set(CPACK_COMPONENT_PROGRAM_DESCRIPTION "starts, connects and watches the processes of a PyTorch program
distrun launch is a drop-in replacement for torchrun without Python, for
programs in C++, Python or anything else, on one node or several.  distrun
store is the store in which the workers of a run meet.  distrun test runs
distributed tests.
.
The program is one file without dependencies.  It needs Linux 5.4 or newer.")

# The libraries are compiled for one version of Boost.
string(REGEX MATCH "^[0-9]+\\.[0-9]+" boost "${Boost_VERSION}")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libdistrun-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "libboost${boost}-dev")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SUGGESTS distrun)
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION "libraries for programs that distrun launches
distrun::common has record(), which reports how a worker failed.
distrun::store is a server and a client of the protocol of c10d's TCPStore.
.
This package has headers, static libraries and a package for CMake.  The
libraries that need LibTorch are built from source.")

set(CPACK_DEBIAN_SYMBOLS_PACKAGE_NAME distrun-dbgsym)
set(CPACK_DEBIAN_SYMBOLS_PACKAGE_SECTION debug)
set(CPACK_DEBIAN_SYMBOLS_PACKAGE_DEPENDS "distrun (= ${PROJECT_VERSION})")
set(CPACK_COMPONENT_SYMBOLS_DESCRIPTION "debug symbols for distrun
gdb reads them from /usr/lib/debug.")

set(CPACK_DEBIAN_SUITES_PACKAGE_NAME distrun-suites)
set(CPACK_DEBIAN_SUITES_PACKAGE_SECTION net)
set(CPACK_DEBIAN_SUITES_PACKAGE_DEPENDS distrun)
set(CPACK_COMPONENT_SUITES_DESCRIPTION "the suites of distrun test
They run with the LibTorch in the folder that distrun was built with.")
include(CPack)
