# Defines distrun_nccl_headers if the backend "nccl" can be built: LibTorch is a CUDA build, and there are the headers that
# LibTorch's ProcessGroupNCCL.hpp includes. They come from the packages beside the wheel (nvidia/), then from CUDA_HOME.
# LibTorch contains the backend, so nothing of the CUDA Toolkit is linked.
set(DISTRUN_NCCL AUTO CACHE STRING "The backend nccl: ON, OFF, or AUTO: if LibTorch is a CUDA build and CUDA's headers are there")
set_property(CACHE DISTRUN_NCCL PROPERTY STRINGS AUTO ON OFF)

# distrun_no_nccl(REASON…): an error if the backend is asked for.
function(distrun_no_nccl)
  string(JOIN "" reason ${ARGN})
  if(DISTRUN_NCCL STREQUAL "AUTO")
    message(STATUS "Without the backend nccl: ${reason}")
  else()
    message(FATAL_ERROR "DISTRUN_NCCL=ON: ${reason}")
  endif()
endfunction()

if(NOT DISTRUN_NCCL)
  return()
elseif(NOT EXISTS "${DISTRUN_LIBTORCH}/lib/libtorch_cuda.so")
  distrun_no_nccl("${DISTRUN_LIBTORCH} is not a CUDA build of LibTorch: `make cuda` fetches one")
  return()
endif()

# Packages for CUDA 13 share the folder nvidia/cu13; for CUDA 12 each has its own.
file(GLOB cuda_folders LIST_DIRECTORIES true "${DISTRUN_LIBTORCH}/../nvidia/*/include")
foreach(home "${CUDA_HOME}" "$ENV{CUDA_HOME}")
  if(home)
    list(APPEND cuda_folders "${home}/include")
  endif()
endforeach()
set(DISTRUN_CUDA_INCLUDES "")
set(missing "")
# One header of each package that ProcessGroupNCCL.hpp needs.
foreach(header cuda_runtime_api.h crt/host_config.h nv/target cublas_v2.h cusparse.h cusolverDn.h nccl.h)
  find_path(folder "${header}" PATHS ${cuda_folders} NO_DEFAULT_PATH NO_CACHE)
  if(folder)
    list(APPEND DISTRUN_CUDA_INCLUDES "${folder}")
  else()
    list(APPEND missing "${header}")
  endif()
  unset(folder)
endforeach()
list(TRANSFORM DISTRUN_CUDA_INCLUDES REPLACE "/$" "")
list(REMOVE_DUPLICATES DISTRUN_CUDA_INCLUDES)
if(missing)
  list(JOIN missing ", " missing)
  distrun_no_nccl("no ${missing} beside LibTorch or in CUDA_HOME: `pip install nvidia-cuda-crt nvidia-cuda-cccl` of LibTorch's "
    "CUDA version adds what the torch wheel lacks, as `make cuda` does")
  return()
endif()
add_library(distrun_nccl_headers INTERFACE)
target_include_directories(distrun_nccl_headers SYSTEM INTERFACE ${DISTRUN_CUDA_INCLUDES})
# c10's CUDA headers warn about the size of cache lines, which differs between processors.
target_compile_options(distrun_nccl_headers INTERFACE "$<$<CXX_COMPILER_ID:GNU>:-Wno-interference-size>")
target_compile_definitions(distrun_nccl_headers INTERFACE USE_C10D_NCCL)
message(STATUS "With the backend nccl: CUDA's headers are in ${DISTRUN_CUDA_INCLUDES}")
