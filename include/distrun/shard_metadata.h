// Where a shard of a tensor lies: within the whole, and on which rank and device.
//
//     ShardMetadata{.shard_offsets = {5, 0}, .shard_sizes = {5, 10}, .placement = "rank:1/cuda:1"}
//
// From torch/distributed/_shard/metadata.py and torch/distributed/remote_device.py.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <c10/core/Device.h>

#include "distrun/result.h"

namespace distrun {

// Not checked before init_from_local_shards(), where all ranks learn of what is wrong on one.
struct ShardMetadata {
  std::vector<std::int64_t> shard_offsets;  // Of its first element, by dimension of the whole.
  std::vector<std::int64_t> shard_sizes;
  std::string placement;  // "rank:0/cpu", "rank:1/cuda:1": the rank is a global one.

  friend bool operator==(const ShardMetadata&, const ShardMetadata&) = default;
};

struct ShardPlacement {
  int rank;
  c10::Device device;
};

// What `placement` says; "rank:0" alone is on the CPU.  Fails with kInvalidArgument.  Pure.
Result<ShardPlacement> parse_placement(std::string_view placement);

}  // namespace distrun
