#include "distrun/sharded_tensor.h"

#include <string>
#include <utility>

#include <c10/util/Exception.h>
#include <c10/util/accumulate.h>

#include "backends/group/collective_checks.h"
#include "distrun/collectives.h"
#include "distrun/process_group.h"
#include "parallel/shard/shard_checks.h"
#include "parallel/shard/shard_facts.h"

namespace distrun {

namespace {

std::vector<internal::RankShards> facts_of_all(const std::vector<Shard>& local_shards,
                                               const std::vector<std::int64_t>& global_size,
                                               const Group& group) {
  const auto own = internal::facts_of(get_rank(), local_shards, global_size);
  std::vector<internal::RankShards> all;
  for (const std::string& bytes : all_gather_bytes(internal::to_bytes(own), group)) {
    all.push_back(internal::facts_from_bytes(bytes));
  }
  return all;
}

ShardedTensorMetadata metadata_of(const std::vector<internal::RankShards>& all) {
  ShardedTensorMetadata metadata{.size = all.front().global_size};
  for (const auto& rank : all) {
    for (const auto& shard : rank.shards) {
      metadata.shards_metadata.push_back(shard.metadata);
      metadata.dtype = shard.dtype;
      metadata.requires_grad = shard.requires_grad;
    }
  }
  return metadata;
}

}  // namespace

Shard Shard::from_tensor_and_offsets(const at::Tensor& tensor,
                                     std::vector<std::int64_t> shard_offsets) {
  const std::string placement = c10::str("rank:", get_rank(), "/", tensor.device());
  return {tensor, {std::move(shard_offsets), tensor.sizes().vec(), placement}};
}

ShardedTensor::ShardedTensor(std::vector<Shard> local_shards, ShardedTensorMetadata metadata,
                             Group group)
    : local_shards_(std::move(local_shards)),
      metadata_(std::move(metadata)),
      numel_(c10::multiply_integers(metadata_.size)),
      group_(std::move(group)) {}

const at::Tensor& ShardedTensor::local_tensor() const {
  TORCH_CHECK_VALUE(local_shards_.size() == 1, "local_tensor on rank ", get_rank(), ": there are ",
                    local_shards_.size(), " local shards; expected one: see local_shards()");
  return local_shards_.front().tensor;
}

ShardedTensor init_from_local_shards(std::vector<Shard> local_shards,
                                     const std::vector<std::int64_t>& global_size,
                                     const ShardedTensorOptions& options) {
  const Group& group = options.process_group;
  TORCH_CHECK_VALUE(group.is_member(), "init_from_local_shards: rank ", get_rank(), " is not in ",
                    internal::Described{group}, "; only its ranks may call it");
  const auto all = facts_of_all(local_shards, global_size, group);
  internal::check_shards(all);
  return ShardedTensor(std::move(local_shards), metadata_of(all), group);
}

}  // namespace distrun
