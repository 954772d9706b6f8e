# Defines distrun_libtorch from the folder DISTRUN_LIBTORCH, if given. Installed with the package,
# which reads it for its users.
#
# Not find_package(Torch), which requires the CUDA toolkit for a CUDA build, even for programs
# without CUDA. Three libraries and two include folders suffice.
if(NOT DISTRUN_LIBTORCH)
  message(STATUS "No LibTorch given: building what needs none")
  return()
endif()

find_file(DISTRUN_TORCH_VERSION_HEADER NAMES
  torch/headeronly/version.h torch/csrc/api/include/torch/version.h
  PATHS "${DISTRUN_LIBTORCH}/include" NO_DEFAULT_PATH NO_CACHE)
if(NOT DISTRUN_TORCH_VERSION_HEADER)
  message(FATAL_ERROR "${DISTRUN_LIBTORCH} is not a LibTorch: it has no include/torch/headeronly/version.h. "
    "Give the folder that holds include/ and lib/: an unpacked libtorch, or site-packages/torch of a wheel.")
endif()
# Another version may replace it in the same folder.
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${DISTRUN_TORCH_VERSION_HEADER}")
file(STRINGS "${DISTRUN_TORCH_VERSION_HEADER}" version_lines REGEX "define TORCH_VERSION_(MAJOR|MINOR|PATCH) ")
string(REGEX REPLACE "[^0-9]+([0-9]+)[^0-9]+([0-9]+)[^0-9]+([0-9]+).*" "\\1.\\2.\\3" DISTRUN_TORCH_VERSION "${version_lines}")
if(DISTRUN_TORCH_VERSION VERSION_LESS 2.11)
  message(FATAL_ERROR "LibTorch ${DISTRUN_TORCH_VERSION} in ${DISTRUN_LIBTORCH} is too old: distrun needs 2.11 or newer. "
    "`make LIBTORCH=` without a folder fetches 2.13.0.")
elseif(DISTRUN_TORCH_VERSION VERSION_GREATER_EQUAL 2.16)
  message(WARNING "LibTorch ${DISTRUN_TORCH_VERSION} is newer than 2.15, the newest that distrun was tested with.")
endif()
message(STATUS "LibTorch ${DISTRUN_TORCH_VERSION}: ${DISTRUN_LIBTORCH}")

add_library(distrun_libtorch INTERFACE)
target_include_directories(distrun_libtorch SYSTEM INTERFACE
  "${DISTRUN_LIBTORCH}/include" "${DISTRUN_LIBTORCH}/include/torch/csrc/api/include")
target_compile_definitions(distrun_libtorch INTERFACE USE_DISTRIBUTED USE_C10D_GLOO)
# For CUDA builds: sharing GPU memory uses their allocator, and the backend nccl is in torch_cuda.
foreach(library torch_cuda c10_cuda)
  if(EXISTS "${DISTRUN_LIBTORCH}/lib/lib${library}.so")
    target_link_libraries(distrun_libtorch INTERFACE "${DISTRUN_LIBTORCH}/lib/lib${library}.so")
  endif()
endforeach()
foreach(library torch torch_cpu c10)
  if(NOT EXISTS "${DISTRUN_LIBTORCH}/lib/lib${library}.so")
    message(FATAL_ERROR "${DISTRUN_LIBTORCH}/lib/lib${library}.so is missing: is this LibTorch whole?")
  endif()
  target_link_libraries(distrun_libtorch INTERFACE "${DISTRUN_LIBTORCH}/lib/lib${library}.so")
endforeach()
