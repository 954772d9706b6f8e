// ShardedTensor is a tensor that lies in pieces on several ranks, each of which has its own and
// knows where the others' are.
//
//     // Of 10 x 4, five rows on each of two ranks.
//     const Shard mine = Shard::from_tensor_and_offsets(at::randn({5, 4}), {5 * get_rank(), 0});
//     ShardedTensor whole = init_from_local_shards({mine}, {10, 4});
//     whole.size();                                    // {10, 4}
//     whole.local_tensor();                            // {5, 4}, the tensor that was given
//     whole.metadata().shards_metadata[1].placement;   // "rank:1/cpu", on every rank
//
// It says what lies where, and computes nothing: work on the local shards.  A parameter made of one
// is none that all ranks have: name it in DdpOptions::parameters_to_ignore.
//
// A value: copies share the shards' tensors.  Threads: as for tensors.
//
// From torch/distributed/_shard/sharded_tensor.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "distrun/group.h"
#include "distrun/shard_metadata.h"

namespace distrun {

struct Shard {
  at::Tensor tensor;
  ShardMetadata metadata;

  // Its sizes, its device and this rank from what there is.  Throws without a default group.
  static Shard from_tensor_and_offsets(const at::Tensor& tensor,
                                       std::vector<std::int64_t> shard_offsets);
};

// The same on all ranks.
struct ShardedTensorMetadata {
  std::vector<ShardMetadata> shards_metadata;  // By group rank, and there as they were given.
  std::vector<std::int64_t> size;              // Of the whole.
  at::ScalarType dtype;
  bool requires_grad;
};

struct ShardedTensorOptions {
  Group process_group = {};  // The ranks that have shards, or may.  Default: all.
};

class ShardedTensor {
 public:
  const ShardedTensorMetadata& metadata() const { return metadata_; }
  at::IntArrayRef size() const { return metadata_.size; }
  std::int64_t dim() const { return static_cast<std::int64_t>(metadata_.size.size()); }
  std::int64_t numel() const { return numel_; }
  at::ScalarType dtype() const { return metadata_.dtype; }
  bool requires_grad() const { return metadata_.requires_grad; }
  const Group& process_group() const { return group_; }

  // Those that this rank has given, which may be none.
  const std::vector<Shard>& local_shards() const { return local_shards_; }
  // The tensor of the only one.  Throws c10::ValueError where there are none or several.
  const at::Tensor& local_tensor() const;

 private:
  friend ShardedTensor init_from_local_shards(std::vector<Shard>, const std::vector<std::int64_t>&,
                                              const ShardedTensorOptions&);
  ShardedTensor(std::vector<Shard> local_shards, ShardedTensorMetadata metadata, Group group);

  std::vector<Shard> local_shards_;
  ShardedTensorMetadata metadata_;
  std::int64_t numel_;
  Group group_;
};

// Makes the tensor of size `global_size` from the shards that the ranks of the group have.  A
// collective: returns when all have come.  A rank may come without a shard.
//
// Throws c10::ValueError, the same on every rank, naming rank, shard and both values: where a
// tensor is not dense and contiguous, or has other sizes than its shard_sizes; where a placement is
// malformed, or another rank or device than the tensor's; where shards differ in dtype or
// requires_grad, or ranks in global_size; where a shard reaches beyond that, two overlap, or some
// elements of the whole are in none.  And on a rank that is not in the group, which does not wait.
ShardedTensor init_from_local_shards(std::vector<Shard> local_shards,
                                     const std::vector<std::int64_t>& global_size,
                                     const ShardedTensorOptions& options = {});

}  // namespace distrun
