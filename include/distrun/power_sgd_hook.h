// PowerSGD compresses gradients before DistributedDataParallel sends them.  A gradient that is a
// matrix M with n rows and m columns is sent as two small matrices P (n × r) and Q (m × r).  Their
// product P · Qᵀ approximates M.  r is the rank of the approximation.
//
//     PowerSGDState state({.matrix_approximation_rank = 2, .start_powerSGD_iter = 100});
//     ddp.register_comm_hook(state, powerSGD_hook);
//
// The option `start_powerSGD_iter` is the first iteration that compresses.  Earlier iterations send
// the whole gradients, because training is sensitive to errors at its start.  About a tenth of all
// iterations is a good value.  Increase `matrix_approximation_rank` in the order 1, 2, 4, … until
// the accuracy is good enough.
//
// Each rank keeps the difference between its gradients and their approximation, and adds it to the
// gradients of the next iteration (`use_error_feedback`).  With it, one gradient that is not finite
// makes all later gradients of its matrix not finite.  Each iteration starts from the
// Q of the previous one (`warm_start`), so the approximation improves.
//
// To also convert the gradients to a dtype of 16 bits, use fp16_compress_wrapper(powerSGD_hook) or
// bf16_compress_wrapper(powerSGD_hook) (comm_hooks.h).
//
// A rank sends the compressed gradients of each bucket in two steps, and the second step needs the
// result of the first.  Here, the second steps of all buckets follow the first step of the last
// bucket, so every rank runs the collectives in the same order.
//
// Shapes: a gradient with more than two dimensions is a matrix with sizes()[0] rows.
// PyTorch source: torch/distributed/algorithms/ddp_comm_hooks/powerSGD_hook.py.  The algorithm is
// from https://arxiv.org/abs/1905.13727.
#pragma once

#include <cstdint>
#include <memory>

#include "distrun/comm_hook.h"
#include "distrun/group.h"

namespace torch::serialize {
class InputArchive;
class OutputArchive;
}  // namespace torch::serialize
namespace distrun::internal {
struct PowerSGDData;
}

namespace distrun {

// Options of PowerSGDState.  They must be the same on all ranks.
struct PowerSGDOptions {
  // The group in which the hook reduces, usually that of the DistributedDataParallel.
  Group process_group = {};

  // The rank r of the approximation.  The computation and the traffic grow with r.  Usual values
  // are 1 to 4, and up to 32 for language models.
  std::int64_t matrix_approximation_rank = 1;

  // The number of iterations that send the whole gradients.  With `use_error_feedback` or
  // `warm_start`, at least 2, because DistributedDataParallel changes its buckets after the first
  // iteration.
  std::int64_t start_powerSGD_iter = 1000;

  // A gradient is compressed if (n + m) · r · min_compression_rate < n · m.  Other gradients are
  // sent without compression, in one collective for each bucket.  With 0, each gradient is
  // compressed.
  double min_compression_rate = 2;

  // Whether each rank adds the error of the last compression to the next gradients.  Without it,
  // training is usually less accurate.
  //
  // Cost: two copies of the gradients.
  bool use_error_feedback = true;

  // Whether an iteration starts from the Q of the previous iteration.  Otherwise it starts from
  // random numbers.
  //
  // Cost: memory for P and Q.
  bool warm_start = true;

  // A small number, such as 1e-8, which is added to the length of a column before the column is
  // divided by it.
  double orthogonalization_epsilon = 0;

  // The seed of the random numbers in Q.
  std::uint32_t random_seed = 0;

  // compression_stats() is logged at the first compression, and then each time after this number of
  // iterations.  Numbers below 1 mean 1.  The log is LibTorch's, at level INFO
  // (TORCH_CPP_LOG_LEVEL).
  std::int64_t compression_stats_logging_frequency = 10'000;

  // Whether the gradients of a bucket that have the same sizes are compressed in one batch.  This
  // is faster for many small matrices.
  //
  // Cost: a copy of these gradients.
  bool batch_tensors_with_same_shape = false;
};

// The result of PowerSGDState::compression_stats().
struct CompressionStats {
  // numel_before_compression / numel_after_compression, or 0 before the first compression.
  double compress_rate = 0;
  // The number of elements of all gradients since the first compression.
  std::int64_t numel_before_compression = 0;
  // The number of elements that this rank has sent instead.
  std::int64_t numel_after_compression = 0;
};

// PowerSGDState is the state of powerSGD_hook() and batched_powerSGD_hook().  Copies refer to the
// same state.  Use a state for one DistributedDataParallel.
//
// Thread safety: one thread at a time.  Do not use a state while backward() runs.
class PowerSGDState {
  enum class NoOption {};

 public:
  // Creates a state.  The constructor does not communicate.
  //
  // Throws: c10::ValueError if `start_powerSGD_iter` is less than 2, and `use_error_feedback` or
  // `warm_start` is true.
  // Also throws c10::ValueError if `matrix_approximation_rank` is less than 1,
  // `min_compression_rate` is negative, `orthogonalization_epsilon` is negative or infinite, or one
  // of the two is not a number.
  explicit PowerSGDState(const PowerSGDOptions& options = {});
  // Creates a state with the default options, so that PowerSGDState({}) is not ambiguous.
  explicit PowerSGDState(NoOption /*none*/) : PowerSGDState() {}

  // Returns the options.
  const PowerSGDOptions& options() const;

  // Returns the number of iterations that the hook has completed.
  std::int64_t iter() const;

  // Returns how much the gradients were compressed so far.
  CompressionStats compression_stats() const;

  // Saves the options, the errors of this rank, P, Q and the counters.  `process_group` is not
  // saved.  The errors differ between ranks, so each rank saves its own file.
  void save(torch::serialize::OutputArchive& archive) const;
  // Continues with the saved options and data.  `process_group` does not change.  Each rank loads
  // the state that it has saved, before the first backward().  With `use_error_feedback` or
  // `warm_start`, the first two iterations then send the whole gradients, because the buckets of a
  // new DistributedDataParallel change after its first iteration.
  //
  // Throws: c10::Error if the archive does not contain a PowerSGDState, or is damaged.  The state
  // does not change.
  // If the buckets differ from those of the saved run, a later backward() throws c10::ValueError.
  void load(torch::serialize::InputArchive& archive);

  // Only distrun calls this function.
  internal::PowerSGDData& data() const { return *data_; }

 private:
  std::shared_ptr<internal::PowerSGDData> data_;
};

// Saves a state, so that torch::save(state, "state.pt") works.
torch::serialize::OutputArchive& operator<<(torch::serialize::OutputArchive& archive,
                                            const PowerSGDState& state);
// Loads a state, so that torch::load(state, "state.pt") works.
torch::serialize::InputArchive& operator>>(torch::serialize::InputArchive& archive,
                                           PowerSGDState& state);

// Compresses each gradient of the bucket that is worth it (PowerSGDOptions::min_compression_rate).
//
// Blocks: in the last bucket of a backward(), until all buckets are reduced.  At this point,
// backward() has computed all gradients of the model.
// Throws: as the hooks in comm_hooks.h.
// Cost: for each bucket, three all_reduces: of the gradients that are not compressed, of all P and
// of all Q.  The computation reads each gradient about six times.
Future powerSGD_hook(const PowerSGDState& state, c10d::GradBucket& bucket);

// Compresses the whole bucket as one square matrix.  This is faster than powerSGD_hook() and
// usually less accurate, because the elements of a row do not belong together.
//
// Blocks: as powerSGD_hook().
// Throws: as powerSGD_hook().
// Cost: for each bucket, an all_reduce of P and one of Q.
Future batched_powerSGD_hook(const PowerSGDState& state, c10d::GradBucket& bucket);

}  // namespace distrun
