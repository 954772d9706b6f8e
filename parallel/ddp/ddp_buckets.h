// Sizes of the buckets of gradients that are reduced together.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace distrun::internal {

// In bytes.
struct BucketSizes {
  std::vector<std::size_t> at_first;  // Until the order of the gradients is known.
  std::int64_t first;                 // Afterwards, of the bucket that is reduced first.
  std::int64_t others;                // Afterwards, of the other buckets.
};

// For DdpOptions::bucket_cap_mb. Unless the graph may change, the Reducer rebuilds the buckets
// after the first iteration, so there is only one before.
//
// Pure. Throws c10::ValueError if the size is negative, NaN, or at least 1e9 MiB.
BucketSizes bucket_sizes(std::optional<double> cap_mb, bool graph_may_change);

}  // namespace distrun::internal
