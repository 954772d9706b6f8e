// Where the parameters of a unit lie in its flat tensor, and which part of it each rank keeps.
//
//     const FlatLayout layout({{3, 4}, {3}}, /*ranks=*/2);
//     layout.total();                 // 32: each parameter begins at a multiple of 16 elements.
//     layout.range_of(1, /*rank=*/1)  // of parameter 1: elements 0 to 3, at 0 of this rank's shard
//
// Rank r keeps the elements [r * shard_size(), (r + 1) * shard_size()). Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace distrun::internal {

// The part of a parameter that lies in a rank's shard. All are counts of elements.
struct ShardRange {
  std::int64_t in_parameter = 0;  // Its first element in the flattened parameter.
  std::int64_t in_shard = 0;      // And in the shard.
  std::int64_t size = 0;          // 0: the rank has no element of the parameter.

  friend bool operator==(const ShardRange&, const ShardRange&) = default;
};

class FlatLayout {
 public:
  // Parameters of kernels begin at cache lines: 16 elements are 64 bytes of float.
  static constexpr std::int64_t kAlignment = 16;

  // Requires ranks > 0.
  FlatLayout(std::vector<std::vector<std::int64_t>> sizes, int ranks);

  std::size_t count() const { return sizes_.size(); }
  const std::vector<std::int64_t>& sizes(std::size_t parameter) const { return sizes_[parameter]; }
  std::int64_t numel(std::size_t parameter) const { return numels_[parameter]; }
  // The first element of a parameter in the flat tensor.
  std::int64_t offset(std::size_t parameter) const { return offsets_[parameter]; }

  // The elements of a shard, and of all shards together. Both include padding.
  std::int64_t shard_size() const { return shard_size_; }
  std::int64_t total() const { return shard_size_ * ranks_; }

  ShardRange range_of(std::size_t parameter, int rank) const;

 private:
  std::vector<std::vector<std::int64_t>> sizes_;
  std::vector<std::int64_t> numels_, offsets_;
  std::int64_t shard_size_ = 0;
  int ranks_;
};

}  // namespace distrun::internal
