#include "backends/hosts/hosts.h"

#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "backends/gloo/gloo.h"
#include "backends/hosts/host_map.h"
#include "backends/hosts/hosts_backend.h"
#include "backends/shm/shm_traits.h"

namespace distrun::internal {

namespace {

using hosts::HostMap;

// A group of some of the ranks of another, which has its own keys.
BackendRequest request_for(const BackendRequest& whole, const std::vector<int>& ranks, int place,
                           const std::string& prefix) {
  BackendRequest part = whole;
  part.store = c10::make_intrusive<c10d::PrefixStore>(prefix, whole.store);
  part.rank = place;
  part.size = static_cast<int>(ranks.size());
  part.options = nullptr;
  part.split_from = nullptr;
  part.ranks.clear();
  for (const int rank : ranks) part.ranks.push_back(whole.ranks[static_cast<std::size_t>(rank)]);
  return part;
}

c10::intrusive_ptr<c10d::Backend> make_hosts_backend(const BackendRequest& request,
                                                     ShmMeeting& meeting) {
  HostMap map(meeting.hosts(), request.rank);
  // Other groups use the same store after this one.
  const std::string prefix = "hosts/" + meeting.name() + "/";
  const std::vector<int> leaders = map.leaders();
  BackendRequest of_all = request;
  of_all.store = c10::make_intrusive<c10d::PrefixStore>(prefix + "all", request.store);
  of_all.options = nullptr;

  hosts::BetweenHosts::Parts parts;
  parts.store = c10::make_intrusive<c10d::PrefixStore>(prefix, request.store);
  parts.failure_key = "failure";
  parts.names = request.ranks;
  const BackendRequest of_host =
      request_for(request, map.ranks_on(map.my_host()), map.place_of(request.rank),
                  prefix + "on" + std::to_string(map.my_host()));
  auto host = ShmMeeting::hold(of_host, CanSpanHosts::kNo).join();
  const BackendRequest of_leaders =
      request_for(request, leaders, map.my_host(), prefix + "leaders");
  parts.names_of_leaders = of_leaders.ranks;
  if (map.is_leader()) parts.leaders = make_gloo_backend(of_leaders);
  parts.all = make_gloo_backend(of_all);
  leave_together(meeting, *parts.all);
  auto group =
      std::make_shared<hosts::HostsGroup>(std::move(map), std::move(host), std::move(parts));
  return c10::make_intrusive<hosts::HostsBackend>(request.rank, request.size, shm_options(request),
                                                  group);
}

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

void leave_together(ShmMeeting& meeting, c10d::Backend& gloo) {
  gloo.barrier({})->wait();  // All ranks have read the cards.
  meeting.leave();
  gloo.barrier({})->wait();
}

std::shared_ptr<const BackendTraits> shm_traits() { return std::make_shared<HostsTraits>(); }

c10::intrusive_ptr<c10d::Backend> make_shm_backend(const BackendRequest& request) {
  ShmMeeting meeting = ShmMeeting::hold(request, CanSpanHosts::kYes);
  return make_met_shm_backend(request, meeting);
}

c10::intrusive_ptr<c10d::Backend> make_met_shm_backend(const BackendRequest& request,
                                                       ShmMeeting& meeting) {
  if (meeting.is_on_one_host()) return make_one_host_backend(request, meeting);
  if (!meeting.all_can_span_hosts()) meeting.refuse();
  return make_hosts_backend(request, meeting);
}

}  // namespace distrun::internal
