// Makes the backend shm for ranks on one host or on several.
#pragma once

#include <memory>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "backends/shm/shm.h"
#include "distrun/backend_registry.h"

namespace distrun::internal {

class BackendTraits;

// Throws c10::DistBackendError if a rank does not come, or if the ranks are on several hosts and
// one cannot span them.
c10::intrusive_ptr<c10d::Backend> make_shm_backend(const BackendRequest& request);
// The same, of ranks that have met.
c10::intrusive_ptr<c10d::Backend> make_met_shm_backend(const BackendRequest& request,
                                                       ShmMeeting meeting);
std::shared_ptr<const BackendTraits> shm_traits();

}  // namespace distrun::internal
