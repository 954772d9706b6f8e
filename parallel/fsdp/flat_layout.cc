#include "parallel/fsdp/flat_layout.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

namespace distrun::internal {

namespace {

std::int64_t aligned(std::int64_t elements) {
  constexpr std::int64_t k = FlatLayout::kAlignment;
  return (elements + k - 1) / k * k;
}

}  // namespace

FlatLayout::FlatLayout(std::vector<std::vector<std::int64_t>> sizes, int ranks)
    : sizes_(std::move(sizes)), ranks_(ranks) {
  std::int64_t end = 0;
  for (const auto& one : sizes_) {
    numels_.push_back(
        std::accumulate(one.begin(), one.end(), std::int64_t{1}, std::multiplies<>()));
    offsets_.push_back(end);
    end += aligned(numels_.back());
  }
  shard_size_ = aligned((end + ranks - 1) / ranks);
}

ShardRange FlatLayout::range_of(std::size_t parameter, int rank) const {
  const std::int64_t shard_begin = rank * shard_size_, begin = offsets_[parameter];
  const std::int64_t from = std::max(begin, shard_begin);
  const std::int64_t to = std::min(begin + numels_[parameter], shard_begin + shard_size_);
  if (to <= from) return {};
  return {from - begin, from - shard_begin, to - from};
}

}  // namespace distrun::internal
