#include "backends/hosts/hosts_collectives.h"

#include <chrono>
#include <cstring>
#include <memory>

namespace distrun::hosts {

namespace {

using shm::Reducing;
using shm::Reduction;
using shm::Watch;

constexpr int kLeader = 0;  // Of the ranks of a host.

// An average is divided once.
Reducing in_host(const Reducing& how) {
  return {how.element, how.reduction == Reduction::kAverage ? Reduction::kSum : how.reduction};
}

}  // namespace

void HostsCollectives::share_result(std::byte* data, std::size_t bytes, Watch& watch) {
  if (!map_.is_leader()) watch.prolong(kLeadersTime);
  host_.broadcast(data, bytes, kLeader, watch);
}

void HostsCollectives::barrier(Watch& watch) {
  host_.barrier(watch);
  if (map_.is_leader()) {
    between_.barrier(deadline_);
  } else {
    watch.prolong(kLeadersTime);
  }
  host_.barrier(watch);
}

void HostsCollectives::broadcast(std::byte* data, std::size_t bytes, int root, Watch& watch) {
  const int host = map_.host_of(root);
  if (host == map_.my_host()) host_.broadcast(data, bytes, map_.place_of(root), watch);
  if (map_.is_leader() && bytes > 0) between_.broadcast(data, bytes, host, deadline_);
  if (host != map_.my_host()) share_result(data, bytes, watch);
}

void HostsCollectives::all_reduce(std::byte* data, std::size_t count, const Reducing& how,
                                  Watch& watch) {
  host_.all_reduce(data, count, in_host(how), watch);
  if (map_.is_leader() && count > 0) {
    between_.all_reduce(data, count, how, map_.ranks(), deadline_);
  }
  share_result(data, count * shm::bytes_of(how.element), watch);
}

void HostsCollectives::reduce(std::byte* data, std::size_t count, const Reducing& how, int root,
                              Watch& watch) {
  if (map_.rank() == root) return all_reduce(data, count, how, watch);
  const std::size_t bytes = count * shm::bytes_of(how.element);
  const auto copy = std::make_unique_for_overwrite<std::byte[]>(bytes);
  if (bytes > 0) std::memcpy(copy.get(), data, bytes);
  all_reduce(copy.get(), count, how, watch);
}

void HostsCollectives::exchange_outputs(const std::vector<std::byte*>& outputs, std::size_t bytes) {
  const std::size_t block = map_.largest() * bytes;
  const auto mine = std::make_unique_for_overwrite<std::byte[]>(block);
  const auto all =
      std::make_unique_for_overwrite<std::byte[]>(block * static_cast<std::size_t>(map_.hosts()));
  // Calls `act` with the place of each rank's bytes in a host's block.
  const auto for_each_rank = [&](int host, std::byte* its, const auto& act) {
    for (const int rank : map_.ranks_on(host)) {
      act(outputs[static_cast<std::size_t>(rank)],
          its + static_cast<std::size_t>(map_.place_of(rank)) * bytes);
    }
  };
  for_each_rank(map_.my_host(), mine.get(),
                [&](std::byte* output, std::byte* its) { std::memcpy(its, output, bytes); });
  between_.all_gather(mine.get(), block, all.get(), deadline_);
  for (int host = 0; host < map_.hosts(); ++host) {
    if (host == map_.my_host()) continue;
    for_each_rank(host, all.get() + static_cast<std::size_t>(host) * block,
                  [&](std::byte* output, std::byte* its) { std::memcpy(output, its, bytes); });
  }
}

void HostsCollectives::all_gather(Const mine, const std::vector<std::byte*>& outputs,
                                  std::size_t bytes, Watch& watch) {
  std::vector<std::byte*> of_host;
  for (const int rank : map_.ranks_on(map_.my_host())) {
    of_host.push_back(outputs[static_cast<std::size_t>(rank)]);
  }
  host_.all_gather(mine, of_host, bytes, watch);
  if (map_.is_leader() && bytes > 0) exchange_outputs(outputs, bytes);
  for (int rank = 0; rank < map_.ranks(); ++rank) {
    if (map_.host_of(rank) == map_.my_host()) continue;
    share_result(outputs[static_cast<std::size_t>(rank)], bytes, watch);
  }
}

void HostsCollectives::gather(Const mine, const std::vector<std::byte*>& outputs, std::size_t bytes,
                              int root, Watch& /*watch*/) {
  if (bytes > 0) between_.gather(mine, outputs, bytes, root, deadline_);
}

void HostsCollectives::scatter(const std::vector<Const>& inputs, std::byte* mine, std::size_t bytes,
                               int root, Watch& /*watch*/) {
  if (bytes > 0) between_.scatter(inputs, mine, bytes, root, deadline_);
}

void HostsCollectives::reduce_scatter(const std::vector<Const>& inputs, std::byte* mine,
                                      std::size_t count, const Reducing& how, Watch& watch) {
  const std::size_t bytes = count * shm::bytes_of(how.element);
  const auto all = std::make_unique_for_overwrite<std::byte[]>(bytes * inputs.size());
  for (std::size_t i = 0; i < inputs.size() && bytes > 0; ++i) {
    std::memcpy(all.get() + i * bytes, inputs[i], bytes);
  }
  const std::size_t total = count * inputs.size();
  host_.reduce(all.get(), total, in_host(how), kLeader, watch);
  std::vector<Const> of_host;
  if (map_.is_leader()) {
    if (total > 0) between_.all_reduce(all.get(), total, how, map_.ranks(), deadline_);
    for (const int rank : map_.ranks_on(map_.my_host())) {
      of_host.push_back(all.get() + static_cast<std::size_t>(rank) * bytes);
    }
  } else {
    watch.prolong(kLeadersTime);
  }
  host_.scatter(of_host, mine, bytes, kLeader, watch);
}

void HostsCollectives::all_to_all(const std::vector<ConstPart>& inputs,
                                  const std::vector<Part>& outputs, Watch& /*watch*/) {
  between_.all_to_all(inputs, outputs, deadline_);
}

}  // namespace distrun::hosts
