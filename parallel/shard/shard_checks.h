// Checks that the shards of all ranks form one tensor.  For sharded_tensor.cc.
#pragma once

#include <vector>

#include "parallel/shard/shard_facts.h"

namespace distrun::internal {

// Throws c10::ValueError for the first error, the same on every rank, as init_from_local_shards()
// documents.  `all` has the shards of the group, by group rank.  Pure.
void check_shards(const std::vector<RankShards>& all);

}  // namespace distrun::internal
