#include "parallel/shard/shard_checks.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <ostream>

#include <c10/util/ArrayRef.h>
#include <c10/util/Exception.h>
#include <c10/util/accumulate.h>
#include <c10/util/safe_numerics.h>

#include "parallel/shard/shard_overlap.h"

namespace distrun::internal {

namespace {

using SizesRef = c10::IntArrayRef;

struct NamedShard {
  int rank;
  std::size_t index;
  const ShardFacts& facts;
};

std::ostream& operator<<(std::ostream& out, const NamedShard& shard) {
  return out << "shard " << shard.index << " of rank " << shard.rank;
}

template <class... Text>
void check(bool holds, const Text&... text) {
  TORCH_CHECK_VALUE(holds, "init_from_local_shards: ", text...);
}

const char* yes_or_no(bool value) { return value ? "true" : "false"; }

// The shard must be within the whole.
void check_metadata(const NamedShard& shard, SizesRef global_size) {
  const auto& [offsets, sizes, placement] = shard.facts.metadata;
  check(offsets.size() == global_size.size() && sizes.size() == global_size.size(), shard,
        " has shard_offsets ", SizesRef(offsets), " and shard_sizes ", SizesRef(sizes),
        "; expected as many dimensions as the global size ", global_size, " has");
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    check(offsets[i] >= 0 && sizes[i] >= 0, shard, " has shard_offsets ", SizesRef(offsets),
          " and shard_sizes ", SizesRef(sizes), "; expected no negative numbers");
    // The sum could overflow.
    check(offsets[i] <= global_size[i] && sizes[i] <= global_size[i] - offsets[i], shard,
          " has offset ", offsets[i], " and size ", sizes[i], " in dimension ", i,
          "; expected to end within the global size ", global_size);
  }
}

void check_placement(const NamedShard& shard) {
  const std::string& text = shard.facts.metadata.placement;
  const auto placement = parse_placement(text);
  check(placement.has_value(), shard, ": ", placement ? "" : placement.error().message);
  check(placement->rank == shard.rank, shard, " has placement ", text, "; expected rank ",
        shard.rank, ", which stores the tensor");
  check(placement->device.str() == shard.facts.device, shard, " has placement ", text,
        "; expected device ", shard.facts.device, ", which stores the tensor");
}

void check_tensor(const NamedShard& shard) {
  const ShardFacts& facts = shard.facts;
  check(facts.problem.empty(), shard, " has an unusable tensor: ", facts.problem);
  check(facts.layout == at::kStrided, shard, " is ", facts.layout, "; expected a dense tensor");
  check(facts.is_contiguous, shard, " is not contiguous (sizes ", SizesRef(facts.sizes),
        "); expected its contiguous()");
  check(facts.sizes == facts.metadata.shard_sizes, shard, " has sizes ", SizesRef(facts.sizes),
        "; expected ", SizesRef(facts.metadata.shard_sizes), ", its shard_sizes");
}

void check_like(const NamedShard& shard, const NamedShard& first) {
  check(shard.facts.dtype == first.facts.dtype, shard, " has dtype ", shard.facts.dtype,
        "; expected ", first.facts.dtype, ", the dtype of ", first);
  check(shard.facts.requires_grad == first.facts.requires_grad, shard, " has requires_grad ",
        yes_or_no(shard.facts.requires_grad), "; expected ", yes_or_no(first.facts.requires_grad),
        ", as ", first, " has");
}

void check_global_size(const std::vector<RankShards>& all) {
  const RankShards& first = all.front();
  for (const RankShards& one : all) {
    check(one.global_size == first.global_size, "rank ", one.rank, " gives the global size ",
          SizesRef(one.global_size), "; expected ", SizesRef(first.global_size), ", as rank ",
          first.rank, " does");
  }
  const bool is_negative = std::any_of(first.global_size.begin(), first.global_size.end(),
                                       [](std::int64_t size) { return size < 0; });
  check(!is_negative, "the global size is ", SizesRef(first.global_size),
        "; expected no negative numbers");
  std::uint64_t numel = 0;
  const bool overflows = c10::safe_multiplies_u64(first.global_size, &numel);
  check(!overflows && numel <= std::uint64_t{std::numeric_limits<std::int64_t>::max()},
        "the global size is ", SizesRef(first.global_size),
        "; expected a number of elements below 2^63");
}

std::vector<NamedShard> named_shards(const std::vector<RankShards>& all) {
  std::vector<NamedShard> shards;
  for (const RankShards& rank : all) {
    for (std::size_t i = 0; i < rank.shards.size(); ++i) {
      shards.push_back({rank.rank, i, rank.shards[i]});
    }
  }
  return shards;
}

// Each element of the whole must be in one shard. Requires shards within the whole.
void check_partition(const std::vector<NamedShard>& shards, SizesRef global_size) {
  std::vector<ShardMetadata> places;
  places.reserve(shards.size());
  for (const NamedShard& one : shards) places.push_back(one.facts.metadata);
  if (const auto pair = find_overlap(places)) {
    const auto& [a, b] = *pair;
    check(false, shards[a], " (offsets ", SizesRef(places[a].shard_offsets), ", sizes ",
          SizesRef(places[a].shard_sizes), ") and ", shards[b], " (offsets ",
          SizesRef(places[b].shard_offsets), ", sizes ", SizesRef(places[b].shard_sizes),
          ") overlap; expected each element in one of them");
  }
  std::int64_t numel = 0;  // Cannot overflow, because no shards overlap.
  for (const ShardMetadata& one : places) numel += c10::multiply_integers(one.shard_sizes);
  check(numel == c10::multiply_integers(global_size), "the shards of all ranks have ", numel,
        " elements; expected ", c10::multiply_integers(global_size), ", as the global size ",
        global_size, " has: some are in no shard");
}

}  // namespace

void check_shards(const std::vector<RankShards>& all) {
  check_global_size(all);
  const SizesRef global_size = all.front().global_size;
  const auto shards = named_shards(all);
  check(!shards.empty(), "no rank has a shard; expected at least one");
  for (const NamedShard& one : shards) {
    check_tensor(one);
    check_metadata(one, global_size);
    check_placement(one);
    check_like(one, shards.front());
  }
  check_partition(shards, global_size);
}

}  // namespace distrun::internal
