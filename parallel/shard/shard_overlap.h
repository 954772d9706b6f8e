// Whether each element of a tensor is in one shard at most.  For shard_checks.cc.
#pragma once

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "distrun/shard_metadata.h"

namespace distrun::internal {

// The positions of two shards that have an element in common, the lower first.  An empty one has
// none.  All have the same number of dimensions, and no negative or overflowing numbers.
//
// A sweep along the dimension that is divided most: n log n for shards in a row, and for a grid
// each meets those beside it.  Pure.
std::optional<std::pair<std::size_t, std::size_t>> find_overlap(
    const std::vector<ShardMetadata>& shards);

}  // namespace distrun::internal
