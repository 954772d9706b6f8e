#include "backends/hosts/hosts_collectives.h"

#include <chrono>
#include <cstring>
#include <memory>
#include <vector>

#include "backends/hosts/widened.h"

namespace distrun::hosts {

namespace {

using shm::CallKind;
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
  if (host_.ranks() == 1) return;
  if (!map_.is_leader()) watch.prolong(kLeadersTime);
  host_.broadcast(data, bytes, kLeader, watch);
}

void HostsCollectives::barrier(Watch& watch) {
  host_.barrier(watch);
  if (map_.is_leader()) {
    between_.barrier(limit(watch));
  } else {
    watch.prolong(kLeadersTime);
  }
  host_.barrier(watch);
}

void HostsCollectives::broadcast(std::byte* data, std::size_t bytes, int root, Watch& watch) {
  host_.compare(CallKind::kBroadcast, bytes, root, watch);
  const int host = map_.host_of(root);
  if (host == map_.my_host()) host_.broadcast(data, bytes, map_.place_of(root), watch);
  if (map_.is_leader() && bytes > 0) between_.broadcast(data, bytes, host, limit(watch));
  if (host != map_.my_host()) share_result(data, bytes, watch);
}

void HostsCollectives::all_reduce(std::byte* data, std::size_t count, const Reducing& how,
                                  Watch& watch) {
  host_.compare(CallKind::kAllReduce, count, how, /*root=*/-1, watch);
  reduce_on_all(data, count, how, watch);
}

void HostsCollectives::reduce_on_all(std::byte* data, std::size_t count, const Reducing& how,
                                     Watch& watch) {
  if (Widened::is_useful(how)) {
    const Widened floats(data, count, how.element);
    reduce_on_all(floats.data(), count, {floats.element(), how.reduction}, watch);
    return floats.round();
  }
  host_.all_reduce(data, count, in_host(how), watch);
  if (map_.is_leader() && count > 0) {
    between_.all_reduce(data, count, how, map_.ranks(), limit(watch));
  }
  share_result(data, count * shm::bytes_of(how.element), watch);
}

void HostsCollectives::reduce(std::byte* data, std::size_t count, const Reducing& how, int root,
                              Watch& watch) {
  host_.compare(CallKind::kReduce, count, how, root, watch);
  if (map_.rank() == root) return reduce_on_all(data, count, how, watch);
  const std::size_t bytes = count * shm::bytes_of(how.element);
  const auto copy = std::make_unique_for_overwrite<std::byte[]>(bytes);
  if (bytes > 0) std::memcpy(copy.get(), data, bytes);
  reduce_on_all(copy.get(), count, how, watch);
}

void HostsCollectives::exchange_outputs(Outputs outputs, std::size_t bytes, Watch& watch) {
  const std::size_t block = map_.largest() * bytes;
  const auto mine = std::make_unique<std::byte[]>(block);
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
  between_.all_gather(mine.get(), block, all.get(), limit(watch));
  for (int host = 0; host < map_.hosts(); ++host) {
    if (host == map_.my_host()) continue;
    for_each_rank(host, all.get() + static_cast<std::size_t>(host) * block,
                  [&](std::byte* output, std::byte* its) { std::memcpy(output, its, bytes); });
  }
}

void HostsCollectives::all_gather(Const mine, Outputs outputs, std::size_t bytes, Watch& watch) {
  host_.compare(CallKind::kAllGather, bytes, /*root=*/-1, watch);
  std::vector<std::byte*> of_host;
  for (const int rank : map_.ranks_on(map_.my_host())) {
    of_host.push_back(outputs[static_cast<std::size_t>(rank)]);
  }
  host_.all_gather(mine, of_host, bytes, watch);
  if (map_.is_leader() && bytes > 0) exchange_outputs(outputs, bytes, watch);
  for (int rank = 0; rank < map_.ranks(); ++rank) {
    if (map_.host_of(rank) == map_.my_host()) continue;
    share_result(outputs[static_cast<std::size_t>(rank)], bytes, watch);
  }
}

void HostsCollectives::gather(Const mine, Outputs outputs, std::size_t bytes, int root,
                              Watch& watch) {
  host_.compare(CallKind::kGather, bytes, root, watch);
  if (bytes > 0) between_.gather(mine, outputs, bytes, root, limit(watch));
}

void HostsCollectives::scatter(Inputs inputs, std::byte* mine, std::size_t bytes, int root,
                               Watch& watch) {
  host_.compare(CallKind::kScatter, bytes, root, watch);
  if (bytes > 0) between_.scatter(inputs, mine, bytes, root, limit(watch));
}

void HostsCollectives::reduce_scatter(Inputs inputs, std::byte* mine, std::size_t count,
                                      const Reducing& how, Watch& watch) {
  host_.compare(CallKind::kReduceScatter, count, how, /*root=*/-1, watch);
  const std::size_t bytes = count * shm::bytes_of(how.element);
  const auto all = std::make_unique_for_overwrite<std::byte[]>(bytes * inputs.size());
  for (std::size_t i = 0; i < inputs.size() && bytes > 0; ++i) {
    std::memcpy(all.get() + i * bytes, inputs[i], bytes);
  }
  if (!Widened::is_useful(how)) return reduce_and_scatter(all.get(), mine, count, how, watch);
  const Widened floats(all.get(), count * inputs.size(), how.element);
  const Widened my_floats(mine, count, how.element);
  reduce_and_scatter(floats.data(), my_floats.data(), count, {floats.element(), how.reduction},
                     watch);
  my_floats.round();
}

void HostsCollectives::reduce_and_scatter(std::byte* all, std::byte* mine, std::size_t count,
                                          const Reducing& how, Watch& watch) {
  const std::size_t bytes = count * shm::bytes_of(how.element);
  const std::size_t total = count * static_cast<std::size_t>(map_.ranks());
  host_.reduce(all, total, in_host(how), kLeader, watch);
  std::vector<Const> of_host;
  if (map_.is_leader()) {
    if (total > 0) between_.all_reduce(all, total, how, map_.ranks(), limit(watch));
    for (const int rank : map_.ranks_on(map_.my_host())) {
      of_host.push_back(all + static_cast<std::size_t>(rank) * bytes);
    }
  } else {
    watch.prolong(kLeadersTime);
  }
  host_.scatter(of_host, mine, bytes, kLeader, watch);
}

void HostsCollectives::all_to_all(InputParts inputs, OutputParts outputs, Watch& watch) {
  host_.compare(CallKind::kAllToAll, watch);
  between_.all_to_all(inputs, outputs, limit(watch));
}

}  // namespace distrun::hosts
