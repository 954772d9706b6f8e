// Finds shards that overlap.
#pragma once

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "distrun/shard_metadata.h"

namespace distrun::internal {

// The indices of two shards that share an element, the lower first. Empty shards share none.
// Requires equally many dimensions for all, and no negative or overflowing numbers.
//
// Cost: n log n for shards in a row. In a grid, each shard is compared with those in the same part
// of the dimension with the most parts. Pure.
std::optional<std::pair<std::size_t, std::size_t>> find_overlap(
    const std::vector<ShardMetadata>& shards);

}  // namespace distrun::internal
