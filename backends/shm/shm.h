// Makes the backend shm for a group.
#pragma once

#include <memory>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "distrun/backend_registry.h"

namespace distrun::internal {

class BackendTraits;

// Throws c10::DistBackendError if the ranks are not on one host, or do not come.
c10::intrusive_ptr<c10d::Backend> make_shm_backend(const BackendRequest& request);
// Null on all ranks if they are not on one host. When all of them have met in another way, each
// calls leave_shm_store(), so that a later group can use the store.
c10::intrusive_ptr<c10d::Backend> make_shm_backend_on_one_host(const BackendRequest& request);
void leave_shm_store(const BackendRequest& request);
std::shared_ptr<const BackendTraits> shm_traits();

}  // namespace distrun::internal
