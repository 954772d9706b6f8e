// The place of a shard: its part of the whole tensor, its rank and its device.
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

// The place of a shard.  init_from_local_shards() checks it on all ranks (sharded_tensor.h).
struct ShardMetadata {
  std::vector<std::int64_t> shard_offsets;  // The first element's index in each dimension.
  std::vector<std::int64_t> shard_sizes;    // The sizes in each dimension.
  std::string placement;                    // Global rank and device: "rank:1/cuda:1".

  friend bool operator==(const ShardMetadata&, const ShardMetadata&) = default;
};

// A parsed placement.
struct ShardPlacement {
  int rank;            // The global rank.
  c10::Device device;  // The device on that rank.
};

// Parses a placement; "rank:0" alone means the CPU.  If the text is malformed, fails with
// kInvalidArgument.
Result<ShardPlacement> parse_placement(std::string_view placement);

}  // namespace distrun
