// The backend auto: shm if all ranks of a group share a host, and otherwise gloo.
//
// The backend's name is that of the chosen one. Subgroups choose for themselves.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "distrun/backend_registry.h"

namespace distrun::internal {

// All ranks choose alike. Throws as the chosen backend does.
c10::intrusive_ptr<c10d::Backend> make_auto_backend(const BackendRequest& request);

}  // namespace distrun::internal
