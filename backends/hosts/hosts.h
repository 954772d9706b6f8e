// Makes the backend shm for ranks on one host or on several.
#pragma once

#include <memory>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "backends/shm/shm.h"
#include "distrun/backend_registry.h"

namespace distrun::internal {

class BackendTraits;

// Throws c10::DistBackendError if a rank does not come, or if one is on another host and cannot
// span hosts, as ranks of Python cannot.
c10::intrusive_ptr<c10d::Backend> make_shm_backend(const BackendRequest& request);
// The same, of ranks that have met.
c10::intrusive_ptr<c10d::Backend> make_met_shm_backend(const BackendRequest& request,
                                                       ShmMeeting& meeting);
// Takes the keys of all ranks from the store, before any rank goes on: so none finds an old card of
// another when it makes the next group. `gloo` has the same ranks.
void leave_together(ShmMeeting& meeting, c10d::Backend& gloo);
std::shared_ptr<const BackendTraits> shm_traits();

}  // namespace distrun::internal
