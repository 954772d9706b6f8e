#include "backends/auto_backend.h"

#include <set>
#include <string>
#include <utility>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "backends/gloo/gloo.h"
#include "backends/hosts/hosts.h"

namespace distrun::internal {

c10::intrusive_ptr<c10d::Backend> make_auto_backend(const BackendRequest& request) {
  // Gloo uses other keys.
  BackendRequest for_shm = request;
  for_shm.store = c10::make_intrusive<c10d::PrefixStore>("shm", request.store);
  ShmMeeting meeting = ShmMeeting::hold(for_shm, CanSpanHosts::kYes);
  const std::set<std::string> hosts(meeting.hosts().begin(), meeting.hosts().end());
  const bool share_hosts = hosts.size() < meeting.hosts().size() || request.size == 1;
  if (share_hosts) return make_met_shm_backend(for_shm, std::move(meeting));
  auto gloo = make_gloo_backend(request);
  meeting.leave_together(*gloo);
  return gloo;
}

}  // namespace distrun::internal
