#include "parallel/hooks/power_sgd_data.h"

#include <algorithm>
#include <utility>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/randn.h>
#include <c10/util/Logging.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/graph_task.h>

#include "distrun/collectives.h"
#include "parallel/ddp/late_future.h"
#include "parallel/hooks/orthogonalize.h"

namespace distrun::internal {

namespace {

Future unfinished_future(c10::Device device) {
  std::vector<c10::Device> devices;
  if (device.is_cuda()) devices.push_back(device);
  return c10::make_intrusive<c10::ivalue::Future>(c10::TensorType::get(), std::move(devices));
}

}  // namespace

CompressionStats PowerSGDData::compression_stats() const {
  CompressionStats with_rate = stats;
  if (stats.numel_after_compression > 0) {
    with_rate.compress_rate = static_cast<double>(stats.numel_before_compression) /
                              static_cast<double>(stats.numel_after_compression);
  }
  return with_rate;
}

void PowerSGDData::bucket_ends(bool is_last) {
  if (!is_last) return;
  ++iter;
  if (iter == options.start_powerSGD_iter) {
    LOG(INFO) << "PowerSGD: compresses gradients after " << iter << " iterations";
  }
}

void PowerSGDData::report_stats(bool is_last) {
  if (!is_last || iter < next_stats_report) return;
  const CompressionStats now = compression_stats();
  LOG(INFO) << "PowerSGD: iteration " << iter << ": compressed " << now.numel_before_compression
            << " elements to " << now.numel_after_compression << ", rate " << now.compress_rate;
  next_stats_report = iter + std::max<std::int64_t>(1, options.compression_stats_logging_frequency);
}

bool PowerSGDData::needs_random_q(std::int64_t index, std::int64_t p_size,
                                  std::int64_t q_size) const {
  if (!options.warm_start || !ps.contains(index)) return true;
  return ps.at(index).numel() != p_size || qs.at(index).numel() != q_size;
}

void PowerSGDData::randomize(const std::vector<LowRank>& parts) {
  // Not the default generator: the program's random numbers must not change.  On the CPU, so that
  // all devices get the same numbers.
  const at::Generator generator = at::detail::createCPUGenerator(seeds.next());
  for (const LowRank& part : parts) {
    part.q.copy_(at::randn(part.q.sizes(), generator, part.q.options().device(at::kCPU)));
    orthogonalize(part.q, options.orthogonalization_epsilon);
  }
}

void PowerSGDData::reuse(const std::vector<LowRank>& parts) {
  for (const LowRank& part : parts) {
    // If all ranks had gradients of zero, Q is zero.  P would then be zero forever.
    revive_zero_matrices(part.q);
    orthogonalize(part.q, options.orthogonalization_epsilon);
  }
}

Future PowerSGDData::add(CompressedBucket bucket) {
  for (const LowRank& part : bucket.parts) {
    at::Tensor p = part.p;
    at::bmm_out(p, part.matrices, part.q);
  }
  bucket.p_sum =
      all_reduce(bucket.p_flat, ReduceOp::SUM, {.group = options.process_group, .async_op = true});
  bucket.done = unfinished_future(bucket.gradients.device());
  Future done = bucket.done;
  const bool is_last = bucket.is_last;
  // A backward() that threw can leave buckets.
  if (!under_way.empty() && bucket.index <= under_way.back().index) under_way.clear();
  const bool is_first = under_way.empty();
  under_way.push_back(std::move(bucket));
  if (is_last) {
    finish();
    return done;
  }
  note_late_future();
  if (is_first && torch::autograd::get_current_graph_task_id() != -1) {
    // Runs before the Reducer waits for its futures, because the Reducer adds its callback later.
    torch::autograd::Engine::get_default_engine().queue_callback(
        [me = shared_from_this(), backward = backwards] {
          if (me->backwards == backward && !me->under_way.empty()) me->finish();
        });
  }
  return done;
}

void PowerSGDData::finish() {
  std::vector<CompressedBucket> buckets = std::exchange(under_way, {});
  ++backwards;
  for (CompressedBucket& bucket : buckets) send_qs(bucket, options);
  for (CompressedBucket& bucket : buckets) {
    decompress(bucket);
    if (options.use_error_feedback) errors[bucket.index] = bucket.before - bucket.input;
    bucket_ends(bucket.is_last);
    bucket.done->markCompleted(bucket.gradients);
  }
  if (options.warm_start) return;
  ps.clear();
  qs.clear();
}

}  // namespace distrun::internal
