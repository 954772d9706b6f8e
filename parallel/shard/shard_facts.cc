#include "parallel/shard/shard_facts.h"

#include <c10/util/Exception.h>
#include <nlohmann/json.hpp>

#include "distrun/sharded_tensor.h"

namespace distrun {

// In the type's namespace, where nlohmann searches.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ShardMetadata, shard_offsets, shard_sizes, placement)

namespace internal {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ShardFacts, metadata, problem, sizes, device, dtype, layout,
                                   is_contiguous, requires_grad)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RankShards, rank, global_size, shards)

namespace {

void add_tensor(ShardFacts& facts, const at::Tensor& tensor) {
  facts.device = tensor.device().str();
  facts.dtype = tensor.scalar_type();
  facts.layout = tensor.layout();
  facts.requires_grad = tensor.requires_grad();
  facts.sizes = tensor.sizes().vec();
  if (facts.layout == at::kStrided) facts.is_contiguous = tensor.is_contiguous();
}

ShardFacts facts_of(const Shard& shard) {
  ShardFacts facts{.metadata = shard.metadata};
  try {
    if (shard.tensor.defined()) {
      add_tensor(facts, shard.tensor);
    } else {
      facts.problem = "it is not defined";
    }
  } catch (const c10::Error& error) {  // A nested tensor has no sizes.
    facts.problem = error.what_without_backtrace();
  }
  return facts;
}

}  // namespace

RankShards facts_of(int rank, const std::vector<Shard>& shards,
                    const std::vector<std::int64_t>& global_size) {
  RankShards facts{.rank = rank, .global_size = global_size};
  for (const Shard& shard : shards) facts.shards.push_back(facts_of(shard));
  return facts;
}

std::string to_bytes(const RankShards& facts) {
  // A placement may contain any bytes, but dump() throws for invalid UTF-8 by default.
  return nlohmann::json(facts).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

RankShards facts_from_bytes(const std::string& bytes) {
  return nlohmann::json::parse(bytes).get<RankShards>();
}

}  // namespace internal
}  // namespace distrun
