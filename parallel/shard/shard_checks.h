// Whether the shards that ranks have make up one tensor.  For sharded_tensor.cc.
#pragma once

#include <vector>

#include "parallel/shard/shard_facts.h"

namespace distrun::internal {

// Throws c10::ValueError for the first thing that is wrong, as init_from_local_shards() says: the
// same on every rank.  `all` are those of the group, by group rank.  Pure.
void check_shards(const std::vector<RankShards>& all);

}  // namespace distrun::internal
