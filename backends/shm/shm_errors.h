// The errors of the backend shm, as LibTorch's callers expect them.
#pragma once

#include <exception>

#include <c10/util/Exception.h>

#include "backends/shm/host/host_error.h"

namespace distrun::shm {

// Calls `act`. A HostError becomes a c10::DistBackendError.
template <class Act>
auto with_backend_errors(const Act& act) {
  try {
    return act();
  } catch (const HostError& error) {
    TORCH_CHECK_WITH(DistBackendError, false, error.what());
  }
}

inline std::exception_ptr as_backend_error(const std::exception_ptr& error) {
  try {
    with_backend_errors([&] { std::rethrow_exception(error); });
  } catch (...) {
    return std::current_exception();
  }
  return error;
}

}  // namespace distrun::shm
