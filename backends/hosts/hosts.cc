#include "backends/hosts/hosts.h"

#include <optional>
#include <string>
#include <utility>

#include "backends/gloo/gloo.h"
#include "backends/hosts/hosts_backend.h"
#include "backends/hosts/hosts_meeting.h"
#include "backends/shm/shm_traits.h"

namespace distrun::internal {

namespace {

class HostsTraits : public ShmTraits {
 public:
  // Of a message. Errors of collectives name the peer already.
  std::optional<int> lost_peer(c10d::Backend& backend, const std::string& error) const override {
    auto* on_hosts = dynamic_cast<hosts::HostsBackend*>(&backend);
    if (on_hosts == nullptr || error.find(hosts::kWasLost) != error.npos) return std::nullopt;
    return peer_of_gloo_error(on_hosts->gloo(), error);
  }
};

}  // namespace

std::shared_ptr<const BackendTraits> shm_traits() { return std::make_shared<HostsTraits>(); }

c10::intrusive_ptr<c10d::Backend> make_shm_backend(const BackendRequest& request) {
  ShmMeeting meeting = ShmMeeting::hold(request, CanSpanHosts::kYes);
  return make_met_shm_backend(request, std::move(meeting));
}

c10::intrusive_ptr<c10d::Backend> make_met_shm_backend(const BackendRequest& request,
                                                       ShmMeeting meeting) {
  if (meeting.is_on_one_host()) return make_one_host_backend(request, meeting);
  if (!meeting.all_can_span_hosts()) meeting.refuse();
  hosts::HostsMeeting of_hosts(request, std::move(meeting));
  of_hosts.join_host();
  auto leaders = of_hosts.is_leader() ? make_gloo_backend(of_hosts.leaders()) : nullptr;
  auto all = make_gloo_backend(of_hosts.all());
  hosts::GlooConnections connections{.close = [](c10d::Backend& gloo) { gloo.abort(); },
                                     .lost_peer = peer_of_gloo_error};
  return of_hosts.finish(std::move(leaders), std::move(all), std::move(connections),
                         make_shm_backend);
}

}  // namespace distrun::internal
