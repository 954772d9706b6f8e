// Checks that the shards of all ranks form one tensor.
#pragma once

#include <vector>

#include "parallel/shard/shard_facts.h"

namespace distrun::internal {

// Throws c10::ValueError for the first error, equal on every rank, as init_from_local_shards()
// documents. `all` is by group rank. Pure.
void check_shards(const std::vector<RankShards>& all);

}  // namespace distrun::internal
