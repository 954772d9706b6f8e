#include "parallel/shard/shard_overlap.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <set>

namespace distrun::internal {

namespace {

using Pair = std::optional<std::pair<std::size_t, std::size_t>>;

bool overlap(const ShardMetadata& a, const ShardMetadata& b) {
  for (std::size_t i = 0; i < a.shard_sizes.size(); ++i) {
    if (a.shard_offsets[i] >= b.shard_offsets[i] + b.shard_sizes[i]) return false;
    if (b.shard_offsets[i] >= a.shard_offsets[i] + a.shard_sizes[i]) return false;
  }
  return true;
}

std::vector<std::size_t> positions_of_filled(const std::vector<ShardMetadata>& shards) {
  std::vector<std::size_t> positions;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    if (std::ranges::count(shards[i].shard_sizes, 0) == 0) positions.push_back(i);
  }
  return positions;
}

std::size_t most_divided_dimension(const std::vector<ShardMetadata>& shards) {
  std::vector<std::size_t> parts;
  for (std::size_t i = 0; i < shards.front().shard_offsets.size(); ++i) {
    std::set<std::int64_t> offsets;
    for (const ShardMetadata& one : shards) offsets.insert(one.shard_offsets[i]);
    parts.push_back(offsets.size());
  }
  return static_cast<std::size_t>(std::ranges::max_element(parts) - parts.begin());
}

Pair find_overlap_along(std::size_t dimension, const std::vector<ShardMetadata>& shards) {
  const auto begin = [&](std::size_t i) { return shards[i].shard_offsets[dimension]; };
  const auto end = [&](std::size_t i) { return begin(i) + shards[i].shard_sizes[dimension]; };
  auto order = positions_of_filled(shards);
  std::ranges::stable_sort(order, std::less(), begin);
  for (auto one = order.begin(); one != order.end(); ++one) {
    for (auto other = one + 1; other != order.end() && begin(*other) < end(*one); ++other) {
      if (overlap(shards[*one], shards[*other])) return std::minmax(*one, *other);
    }
  }
  return std::nullopt;
}

}  // namespace

Pair find_overlap(const std::vector<ShardMetadata>& shards) {
  if (shards.size() < 2) return std::nullopt;
  // All shards of a scalar contain its only element.
  if (shards.front().shard_sizes.empty()) return {{0, 1}};
  return find_overlap_along(most_divided_dimension(shards), shards);
}

}  // namespace distrun::internal
