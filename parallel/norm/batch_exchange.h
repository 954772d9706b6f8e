// The collectives of SyncBatchNorm: one in forward, one in backward.
#pragma once

#include <cstdint>
#include <string>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include "distrun/group.h"
#include "parallel/norm/batch_statistics.h"

namespace distrun::internal {

// Throws c10::ValueError on every rank if the layers of two ranks have different numbers of
// channels. Messages would otherwise have different sizes, which backends do not detect.
void compare_channels(std::int64_t channels, c10::Device device, const Group& group);

// Which gradients a rank computes.
enum class GraphKind : std::uint8_t { kNone, kParametersOnly, kWithInput };

struct OwnBatch {
  std::string problem;  // Why the input is wrong; otherwise empty.
  GraphKind graph = GraphKind::kNone;
  BatchStatistics statistics;  // Zeros if there is a problem.
};

struct AllBatches {
  BatchStatistics statistics;
  bool has_input_gradients = false;  // Then every rank takes part in the collective of backward.
};

// Throws c10::ValueError on every rank, with the same text, if a batch has a problem, if all
// batches together have one value per channel, or if a rank would miss in the collective of
// backward.
AllBatches exchange_batches(const OwnBatch& own, const Group& group);

// Sums over all ranks.
GradientSums exchange_gradients(const GradientSums& own, const Group& group);

}  // namespace distrun::internal
