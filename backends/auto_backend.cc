#include "backends/auto_backend.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "backends/gloo/gloo.h"
#include "backends/shm/shm.h"

namespace distrun::internal {

c10::intrusive_ptr<c10d::Backend> make_auto_backend(const BackendRequest& request) {
  // Gloo uses other keys.
  BackendRequest for_shm = request;
  for_shm.store = c10::make_intrusive<c10d::PrefixStore>("shm", request.store);
  if (auto shm = make_shm_backend_on_one_host(for_shm)) return shm;
  auto gloo = make_gloo_backend(request);
  leave_shm_store(for_shm);  // Now that all ranks have met.
  return gloo;
}

}  // namespace distrun::internal
