// ShardedTensor is a tensor whose shards are on several ranks.  Each rank has its own shards, and
// knows which ranks have the other shards.
//
//     // 10 x 4, five rows on each of two ranks.
//     const Shard mine = Shard::from_tensor_and_offsets(at::randn({5, 4}), {5 * get_rank(), 0});
//     ShardedTensor whole = init_from_local_shards({mine}, {10, 4});
//     whole.size();                                    // {10, 4}
//     whole.local_tensor();                            // {5, 4}, the tensor given above.
//     whole.metadata().shards_metadata[1].placement;   // "rank:1/cpu", on every rank.
//
// A ShardedTensor describes the layout of the tensor.  It has no operators, so compute with the
// local shards.  If a parameter of a module is a shard, its values differ between ranks.  Add the
// name of such a parameter to DdpOptions::parameters_to_ignore.  Copies of a ShardedTensor share
// the tensors of its shards.
//
// Thread safety: the same as for a tensor.
// PyTorch source: torch/distributed/_shard/sharded_tensor.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "distrun/group.h"
#include "distrun/shard_metadata.h"

namespace distrun {

// A shard on this rank.
struct Shard {
  at::Tensor tensor;       // The elements.
  ShardMetadata metadata;  // The place of these elements in the whole tensor.

  // Returns a shard of this tensor.  Its metadata contains the given offsets, the tensor's sizes
  // and device, and this rank.
  //
  // Throws: c10::Error if there is no default group.
  static Shard from_tensor_and_offsets(const at::Tensor& tensor,
                                       std::vector<std::int64_t> shard_offsets);
};

// The layout of the whole tensor.  It is the same on all ranks.
struct ShardedTensorMetadata {
  // The shards of all ranks, sorted by group rank.  The shards of one rank are in the order of its
  // local_shards().
  std::vector<ShardMetadata> shards_metadata;
  std::vector<std::int64_t> size;  // The sizes of the whole tensor.
  at::ScalarType dtype;            // The dtype of every shard.
  bool requires_grad;              // Whether every shard requires a gradient.
};

// Options of init_from_local_shards().
struct ShardedTensorOptions {
  Group process_group = {};  // The ranks that may have shards.  The default is all ranks.
};

class ShardedTensor {
 public:
  // Returns the layout of the whole tensor.
  const ShardedTensorMetadata& metadata() const { return metadata_; }
  // Returns the sizes of the whole tensor.
  at::IntArrayRef size() const { return metadata_.size; }
  // Returns the number of dimensions.
  std::int64_t dim() const { return static_cast<std::int64_t>(metadata_.size.size()); }
  // Returns the number of elements of the whole tensor.
  std::int64_t numel() const { return numel_; }
  // Returns the dtype of every shard.
  at::ScalarType dtype() const { return metadata_.dtype; }
  // Returns whether every shard requires a gradient.
  bool requires_grad() const { return metadata_.requires_grad; }
  // Returns ShardedTensorOptions::process_group.
  const Group& process_group() const { return group_; }

  // Returns the shards of this rank.  The list may be empty.
  const std::vector<Shard>& local_shards() const { return local_shards_; }
  // Returns the tensor of this rank's only shard.
  //
  // Throws: c10::ValueError if this rank does not have exactly one shard.
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

// Creates the tensor of size `global_size` from the shards of all ranks.  A rank may have no shard,
// but at least one rank must have one.
//
// Shapes: the tensor of each shard is dense and contiguous.  Its sizes are the shard_sizes of its
// metadata.  All shards have the same dtype and the same requires_grad.  Together, the shards cover
// `global_size` without overlaps.
// Blocks: until every rank of the group has called init_from_local_shards().
// Throws: c10::ValueError if the shards of any rank violate a rule above, or if `global_size`
// differs between ranks.
// Also throws c10::ValueError if a placement is malformed, or does not name the rank and the device
// of the shard's tensor.  These errors have the same text on every rank.  The text names the rank
// and the shard, and shows the expected and the actual value.
// Also throws c10::ValueError at once on a rank outside the group.
// Cost: an all_gather of the lengths of the metadata, and then an all_gather of the metadata.  The
// metadata has about 200 bytes for each shard.  The metadata of every rank is padded to the longest
// length.  No elements are sent or copied.
ShardedTensor init_from_local_shards(std::vector<Shard> local_shards,
                                     const std::vector<std::int64_t>& global_size,
                                     const ShardedTensorOptions& options = {});

}  // namespace distrun
