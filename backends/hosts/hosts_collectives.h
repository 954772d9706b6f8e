// Collectives of ranks on several hosts: within each host through shared memory, and between hosts
// by one leader for each.
//
// The ranks of a host first compare what they call. A sum is that of each host, in the order of its
// ranks, and then that of the hosts. All ranks get the same bits. Half-precision numbers are added
// as floats, and rounded once.
#pragma once

#include <chrono>
#include <cstddef>

#include "backends/hosts/between_hosts.h"
#include "backends/hosts/host_map.h"
#include "backends/shm/host/host_collectives.h"

namespace distrun::hosts {

class HostsCollectives : public shm::Collectives {
 public:
  // Refers to its arguments. `host` are the collectives of this rank's host.
  HostsCollectives(const HostMap& map, shm::HostCollectives& host, BetweenHosts& between,
                   std::chrono::steady_clock::time_point deadline)
      : map_(map), host_(host), between_(between), deadline_(deadline) {}

  int rank() const override { return map_.rank(); }
  int ranks() const override { return map_.ranks(); }

  void barrier(shm::Watch& watch) override;
  void broadcast(std::byte* data, std::size_t bytes, int root, shm::Watch& watch) override;
  void all_reduce(std::byte* data, std::size_t count, const shm::Reducing& how,
                  shm::Watch& watch) override;
  void reduce(std::byte* data, std::size_t count, const shm::Reducing& how, int root,
              shm::Watch& watch) override;
  void all_gather(Const mine, Outputs outputs, std::size_t bytes, shm::Watch& watch) override;
  void gather(Const mine, Outputs outputs, std::size_t bytes, int root, shm::Watch& watch) override;
  void scatter(Inputs inputs, std::byte* mine, std::size_t bytes, int root,
               shm::Watch& watch) override;
  void reduce_scatter(Inputs inputs, std::byte* mine, std::size_t count, const shm::Reducing& how,
                      shm::Watch& watch) override;
  void all_to_all(InputParts inputs, OutputParts outputs, shm::Watch& watch) override;

 private:
  // Without the comparison of calls.
  void reduce_on_all(std::byte* data, std::size_t count, const shm::Reducing& how,
                     shm::Watch& watch);
  // `all` has `count` elements for each rank. Writes this rank's to `mine`.
  void reduce_and_scatter(std::byte* all, std::byte* mine, std::size_t count,
                          const shm::Reducing& how, shm::Watch& watch);
  // Gives the leader's bytes to the ranks of this host, which wait while leaders work.
  void share_result(std::byte* data, std::size_t bytes, shm::Watch& watch);
  // The leader gets from the others what they have of their hosts' ranks.
  void exchange_outputs(Outputs outputs, std::size_t bytes, shm::Watch& watch);
  BetweenHosts::Limit limit(shm::Watch& watch) const { return {deadline_, watch}; }

  const HostMap& map_;
  shm::HostCollectives& host_;
  BetweenHosts& between_;
  const std::chrono::steady_clock::time_point deadline_;
};

}  // namespace distrun::hosts
