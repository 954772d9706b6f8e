#include "parallel/ddp/ddp_buckets.h"

#include <limits>

#include <c10/util/Exception.h>
#include <torch/csrc/distributed/c10d/reducer.hpp>

namespace distrun::internal {

BucketSizes bucket_sizes(std::optional<double> cap_mb, bool graph_may_change) {
  constexpr double kMiB = 1024 * 1024;
  TORCH_CHECK_VALUE(!cap_mb || (*cap_mb >= 0 && *cap_mb < 1e9),
                    "DistributedDataParallel: bucket_cap_mb is ", cap_mb.value_or(0),
                    "; expected a size in MiB, or 0 for one bucket per parameter");
  const auto cap = static_cast<std::int64_t>(cap_mb.value_or(0) * kMiB);
  BucketSizes sizes{.at_first = {},
                    .first = cap_mb ? cap : c10d::kDefaultFirstBucketBytes,
                    .others = cap_mb ? cap : c10d::kDefaultBucketBytesCap};
  if (!graph_may_change) {
    sizes.at_first = {std::numeric_limits<std::size_t>::max()};
  } else if (sizes.first < sizes.others) {
    sizes.at_first = {static_cast<std::size_t>(sizes.first),
                      static_cast<std::size_t>(sizes.others)};
  } else {
    sizes.at_first = {static_cast<std::size_t>(sizes.others)};
  }
  return sizes;
}

}  // namespace distrun::internal
