# Defines distrun_gloo_headers.
#
# The wheel omits the headers of the Gloo inside it; Debian's libgloo-dev declares the same
# interface. Its library is never linked.
find_path(DISTRUN_GLOO_INCLUDE gloo/algorithm.h PATHS "${DISTRUN_LIBTORCH}/include" NO_CACHE)
if(NOT DISTRUN_GLOO_INCLUDE)
  message(FATAL_ERROR "No Gloo headers: install libgloo-dev")
endif()
add_library(distrun_gloo_headers INTERFACE)
target_include_directories(distrun_gloo_headers SYSTEM INTERFACE "${DISTRUN_GLOO_INCLUDE}")
