// Which gradients are reduced together.  For ddp_core.cc.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace distrun::internal {

// Bytes, as c10d::Reducer wants them.
struct BucketSizes {
  std::vector<std::size_t> at_first;  // Until the order in which gradients come is known.
  std::int64_t first;                 // Then: the bucket that is reduced first,
  std::int64_t others;                // and the others.
};

// The sizes for DdpOptions::bucket_cap_mb.  Where buckets are built again after the first
// iteration, as they are unless the graph may change, there is only one before.
//
// Pure.  Throws c10::ValueError where the size is negative, or no number.
BucketSizes bucket_sizes(std::optional<double> cap_mb, bool graph_may_change);

}  // namespace distrun::internal
