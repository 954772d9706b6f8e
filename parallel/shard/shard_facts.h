// What a rank tells the others of its shards.  All that can be wrong with them is decided from
// that, by every rank (shard_checks.h): so a rank that is wrong keeps none waiting, and all find
// the same.  For sharded_tensor.cc.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <c10/core/Layout.h>
#include <c10/core/ScalarType.h>

#include "distrun/shard_metadata.h"

namespace distrun {
struct Shard;
}

namespace distrun::internal {

struct ShardFacts {
  ShardMetadata metadata;
  // Of the tensor.  Where `problem` is not empty it says why the rest is not known.
  std::string problem;
  std::vector<std::int64_t> sizes;
  std::string device;
  at::ScalarType dtype = at::kFloat;
  at::Layout layout = at::kStrided;
  bool is_contiguous = true;
  bool requires_grad = false;
};

struct RankShards {
  int rank = 0;  // The global one.
  std::vector<std::int64_t> global_size;
  std::vector<ShardFacts> shards;
};

// Throws nothing that would keep this rank from telling.
RankShards facts_of(int rank, const std::vector<Shard>& shards,
                    const std::vector<std::int64_t>& global_size);

// JSON, of which the other side is this program on another rank.
std::string to_bytes(const RankShards& facts);
RankShards facts_from_bytes(const std::string& bytes);

}  // namespace distrun::internal
