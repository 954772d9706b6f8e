// What a PowerSGDState contains, and the order of the steps of all buckets (compressed_bucket.h).
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "distrun/power_sgd_hook.h"
#include "parallel/hooks/compressed_bucket.h"
#include "parallel/hooks/seed_stream.h"

namespace distrun::internal {

struct PowerSGDData : std::enable_shared_from_this<PowerSGDData> {
  explicit PowerSGDData(const PowerSGDOptions& the_options)
      : options(the_options), seeds(the_options.random_seed) {}

  PowerSGDOptions options;
  SeedStream seeds;
  TensorOfBucket errors, ps, qs;
  std::int64_t iter = 0;
  CompressionStats stats;
  std::int64_t next_stats_report = 0;
  // The buckets of this backward() whose P is under way.
  std::vector<CompressedBucket> under_way;
  std::int64_t backwards = 0;  // Changes when `under_way` becomes empty.

  // The first iteration after a load() that compresses.  A new DistributedDataParallel changes its
  // buckets after its first iteration, so the saved errors do not fit earlier.
  std::int64_t compresses_again = 0;

  // Whether this iteration sends the whole gradients.
  bool is_warming_up() const {
    return iter < std::max(options.start_powerSGD_iter, compresses_again);
  }
  CompressionStats compression_stats() const;
  void bucket_ends(bool is_last);
  void report_stats(bool is_last);

  // Whether P and Q must be created for this bucket.  If not, `ps` and `qs` contain them.
  bool needs_random_q(std::int64_t index, std::int64_t p_size, std::int64_t q_size) const;
  // Fills the Q with random numbers.  They depend only on the seed and on earlier calls.
  void randomize(const std::vector<LowRank>& parts);
  // Prepares the Q of the previous iteration for another.
  void reuse(const std::vector<LowRank>& parts);

  // Computes P, starts its sum, and keeps the bucket.  If this is the last bucket, finishes all.
  // If the last bucket does not come (skip_all_reduce_unused_params), the end of backward() does.
  Future add(CompressedBucket bucket);

 private:
  void finish();
};

}  // namespace distrun::internal
