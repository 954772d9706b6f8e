// Makes the backend shm for a group.
#pragma once

#include <memory>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "distrun/backend_registry.h"

namespace distrun::internal {

class BackendTraits;

// Throws c10::DistBackendError if the ranks are not on one host, or do not come.
c10::intrusive_ptr<c10d::Backend> make_shm_backend(const BackendRequest& request);
std::shared_ptr<const BackendTraits> shm_traits();

}  // namespace distrun::internal
