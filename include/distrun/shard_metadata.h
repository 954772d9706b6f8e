// A shard is a part of a tensor, on one rank.  ShardMetadata describes which part of the whole
// tensor a shard is.  It also names the rank and the device of the shard.
//
//     ShardMetadata{.shard_offsets = {5, 0}, .shard_sizes = {5, 10}, .placement = "rank:1/cuda:1"}
//
// PyTorch source: torch/distributed/_shard/metadata.py, torch/distributed/remote_device.py.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <c10/core/Device.h>

#include "distrun/result.h"

namespace distrun {

// The place of a shard.  init_from_local_shards() checks the places of all shards
// (sharded_tensor.h).
struct ShardMetadata {
  std::vector<std::int64_t> shard_offsets;  // The first index in each dimension.
  std::vector<std::int64_t> shard_sizes;    // The size in each dimension.
  std::string placement;                    // The global rank and the device: "rank:1/cuda:1".

  friend bool operator==(const ShardMetadata&, const ShardMetadata&) = default;
};

// The parts of a placement.
struct ShardPlacement {
  int rank;            // The global rank.
  c10::Device device;  // The device on that rank.
};

// Parses a placement.  If the text contains no device, as in "rank:0", the device is the CPU.
// Fails with kInvalidArgument if the text is malformed.
Result<ShardPlacement> parse_placement(std::string_view placement);

}  // namespace distrun
