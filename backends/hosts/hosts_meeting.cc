#include "backends/hosts/hosts_meeting.h"

#include <cstddef>
#include <utility>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "backends/hosts/hosts_backend.h"

namespace distrun::hosts {

using internal::CanSpanHosts;
using internal::ShmMeeting;

namespace {

c10::intrusive_ptr<c10d::Store> with_prefix(const std::string& prefix,
                                            const c10::intrusive_ptr<c10d::Store>& store) {
  return c10::make_intrusive<c10d::PrefixStore>(prefix, store);
}

// Of the keys. Other groups use the same store after this one.
std::string prefix_of(const ShmMeeting& meeting) { return "hosts/" + meeting.name() + "/"; }

}  // namespace

HostsMeeting::HostsMeeting(const BackendRequest& request, ShmMeeting meeting)
    : request_(request), meeting_(std::move(meeting)), map_(meeting_.hosts(), request.rank) {}

BackendRequest HostsMeeting::part(const std::vector<int>& ranks, int place,
                                  const std::string& name) const {
  BackendRequest part = request_;
  part.store = with_prefix(prefix_of(meeting_) + name, request_.store);
  part.rank = place;
  part.size = static_cast<int>(ranks.size());
  part.options = nullptr;
  part.split_from = nullptr;
  part.ranks.clear();
  for (const int rank : ranks) part.ranks.push_back(request_.ranks[static_cast<std::size_t>(rank)]);
  return part;
}

void HostsMeeting::join_host() {
  const int host = map_.my_host();
  const BackendRequest of_host =
      part(map_.ranks_on(host), map_.place_of(request_.rank), "on" + std::to_string(host));
  host_ = ShmMeeting::hold(of_host, CanSpanHosts::kNo).join();
}

// Without a name: flight recorders would otherwise count what the leaders do among the collectives
// of the group, which other ranks then seem to have left out.
BackendRequest HostsMeeting::leaders() const {
  BackendRequest leaders = part(map_.leaders(), map_.my_host(), "leaders");
  leaders.group_name.clear();
  return leaders;
}

BackendRequest HostsMeeting::all() const {
  BackendRequest all = request_;
  all.store = with_prefix(prefix_of(meeting_) + "all", request_.store);
  all.options = nullptr;
  return all;
}

HostsMeeting::BackendPtr HostsMeeting::finish(BackendPtr leaders, BackendPtr all,
                                              GlooConnections connections, BackendMaker make_part) {
  meeting_.leave_together(*all);
  BetweenHosts::Parts parts;
  parts.names_of_leaders = this->leaders().ranks;
  parts.leaders = std::move(leaders);
  parts.all = std::move(all);
  parts.store = with_prefix(prefix_of(meeting_), request_.store);
  parts.failure_key = "failure";
  parts.names = request_.ranks;
  parts.connections = std::move(connections);
  auto group = std::make_shared<HostsGroup>(map_, std::move(host_), std::move(parts));
  return c10::make_intrusive<HostsBackend>(
      request_.rank, request_.size, internal::shm_options(request_), group, std::move(make_part));
}

}  // namespace distrun::hosts
