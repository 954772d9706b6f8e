// The sizes of buckets, which hold the gradients that are reduced together.  For ddp_core.cc.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace distrun::internal {

// In bytes.
struct BucketSizes {
  std::vector<std::size_t> at_first;  // Until the order of the gradients is known.
  std::int64_t first;                 // Afterwards: the bucket that is reduced first,
  std::int64_t others;                // and the others.
};

// The sizes for DdpOptions::bucket_cap_mb.  If the Reducer rebuilds the buckets after the first
// iteration, as it does unless the graph may change, there is one bucket before.
//
// Pure.  Throws c10::ValueError if the size is negative or NaN.
BucketSizes bucket_sizes(std::optional<double> cap_mb, bool graph_may_change);

}  // namespace distrun::internal
