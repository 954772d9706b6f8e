// What a rank reports about its shards. Every rank checks all reports (shard_checks.h), so that all
// find the same error and none waits for another.
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
  // About the tensor. `problem` says why other facts are unknown; may be empty.
  std::string problem;
  std::vector<std::int64_t> sizes;
  std::string device;
  at::ScalarType dtype = at::kFloat;
  at::Layout layout = at::kStrided;
  bool is_contiguous = true;
  bool requires_grad = false;
};

struct RankShards {
  int rank = 0;  // Global.
  std::vector<std::int64_t> global_size;
  std::vector<ShardFacts> shards;
};

// Throws nothing, so that this rank can always report.
RankShards facts_of(int rank, const std::vector<Shard>& shards,
                    const std::vector<std::int64_t>& global_size);

// JSON, for other ranks of the same program.
std::string to_bytes(const RankShards& facts);
RankShards facts_from_bytes(const std::string& bytes);

}  // namespace distrun::internal
