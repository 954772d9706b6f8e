// How ranks on several hosts make their backend: they share the memory of each host, and connect
// by Gloo.
//
//     HostsMeeting hosts(request, std::move(meeting));
//     hosts.join_host();
//     auto leaders = hosts.is_leader() ? make_gloo_backend(hosts.leaders()) : nullptr;
//     auto all = make_gloo_backend(hosts.all());
//     return hosts.finish(leaders, all, connections, make_shm_backend);
//
// The caller makes the backends of Gloo, because Python makes its own. All ranks must do the above
// in this order.
//
// Errors: c10::DistBackendError, and those of Gloo. Thread safety: one thread at a time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "backends/hosts/between_hosts.h"
#include "backends/hosts/host_map.h"
#include "backends/shm/host/host_group.h"
#include "backends/shm/shm.h"
#include "distrun/backend_registry.h"

namespace distrun::hosts {

class HostsMeeting {
 public:
  using BackendPtr = c10::intrusive_ptr<c10d::Backend>;

  // `meeting` is of the ranks of `request`, which are on several hosts.
  HostsMeeting(const BackendRequest& request, internal::ShmMeeting meeting);

  // Maps the memory of the ranks of this host.
  void join_host();
  // Whether this rank is one of leaders().
  bool is_leader() const { return map_.is_leader(); }
  // The requests for the backends of Gloo.
  BackendRequest leaders() const;
  BackendRequest all() const;
  // `leaders` is null on other ranks. `make_part` makes the backends that are split from this one.
  BackendPtr finish(BackendPtr leaders, BackendPtr all, GlooConnections connections,
                    BackendMaker make_part);

 private:
  // A group of some of the ranks, which has its own keys.
  BackendRequest part(const std::vector<int>& ranks, int place, const std::string& name) const;

  const BackendRequest request_;
  internal::ShmMeeting meeting_;
  const HostMap map_;
  std::shared_ptr<shm::HostGroup> host_;
};

}  // namespace distrun::hosts
