#include "distrun/sync_batch_norm.h"

#include <ios>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>
#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "distrun/process_group.h"
#include "parallel/norm/batch_exchange.h"
#include "parallel/norm/batch_statistics.h"
#include "parallel/norm/normalize.h"

namespace distrun {

using internal::AllBatches;
using internal::GraphKind;
using internal::OwnBatch;
using internal::statistics_dtype;

namespace {

constexpr const char* kSyncBatchNorm = "SyncBatchNorm";

// One of the layer's tensors; undefined if the layer has none.
const at::Tensor& any_tensor(const SyncBatchNormImpl& layer) {
  return layer.weight.defined() ? layer.weight : layer.running_mean;
}

// Describes why the layer cannot use an input; empty if it can.
std::string problem_with(const at::Tensor& input, const SyncBatchNormImpl& layer) {
  if (!input.defined()) return "the input is undefined";
  if (input.layout() != at::kStrided)
    return c10::str("the input is ", input.layout(), "; expected a dense tensor");
  if (input.dim() < 2) return c10::str("expected at least 2D input (got ", input.dim(), "D input)");
  const std::int64_t channels = layer.options.num_features();
  if (input.size(1) != channels) {
    return c10::str("the input has sizes ", input.sizes(), ", so ", input.size(1),
                    " channels; expected ", channels);
  }
  if (channels == 0) return "number of input channels should be non-zero";
  const auto dtype = input.scalar_type();
  if (dtype != at::kDouble && dtype != at::kFloat && dtype != at::kHalf && dtype != at::kBFloat16) {
    return c10::str("the input has dtype ", dtype, "; expected Float, Double, Half or BFloat16");
  }
  for (const at::Tensor& one : {layer.weight, layer.bias, layer.running_mean, layer.running_var}) {
    if (!one.defined()) continue;
    if (statistics_dtype(one.scalar_type()) != statistics_dtype(dtype)) {
      return c10::str("the input has dtype ", dtype, ", and the layer ", one.scalar_type(),
                      "; convert one of them, for example with to()");
    }
    if (one.device() != input.device()) {
      return c10::str("the input is on ", input.device(), ", and the layer on ", one.device());
    }
    if (one.numel() != channels) {
      return c10::str("a parameter or buffer has sizes ", one.sizes(), "; expected [", channels,
                      "]: call unshard() of its FullyShardedDataParallel first");
    }
  }
  return {};
}

GraphKind graph_kind(const at::Tensor& input, const SyncBatchNormImpl& layer) {
  if (!at::GradMode::is_enabled()) return GraphKind::kNone;
  if (input.defined() && input.requires_grad()) return GraphKind::kWithInput;
  const auto needs_gradient = [](const at::Tensor& one) {
    return one.defined() && one.requires_grad();
  };
  return needs_gradient(layer.weight) || needs_gradient(layer.bias) ? GraphKind::kParametersOnly
                                                                    : GraphKind::kNone;
}

}  // namespace

SyncBatchNormImpl::SyncBatchNormImpl(const torch::nn::BatchNormOptions& its_options, Group group)
    : options(its_options), process_group(std::move(group)) {
  SyncBatchNormImpl::reset();
}

void SyncBatchNormImpl::register_tensors() {
  for (auto& [name, tensor] : {std::pair("weight", &weight), std::pair("bias", &bias)}) {
    register_parameter(name, *tensor, tensor->defined() && tensor->requires_grad());
  }
  register_buffer("running_mean", running_mean);
  register_buffer("running_var", running_var);
  register_buffer("num_batches_tracked", num_batches_tracked);
}

void SyncBatchNormImpl::reset() {
  const std::vector<std::int64_t> sizes = {options.num_features()};
  weight = bias = running_mean = running_var = num_batches_tracked = at::Tensor();
  if (options.affine()) {
    weight = at::ones(sizes).requires_grad_();
    bias = at::zeros(sizes).requires_grad_();
  }
  if (options.track_running_stats()) {
    running_mean = at::zeros(sizes);
    running_var = at::ones(sizes);
    num_batches_tracked = at::zeros({}, at::kLong);
  }
  register_tensors();
}

void SyncBatchNormImpl::reset_running_stats() {
  if (!running_mean.defined()) return;
  running_mean.zero_();
  running_var.fill_(1);
  num_batches_tracked.zero_();
}

void SyncBatchNormImpl::reset_parameters() {
  reset_running_stats();
  const at::NoGradGuard no_grad;
  if (weight.defined()) weight.fill_(1);
  if (bias.defined()) bias.zero_();
}

void SyncBatchNormImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "distrun::SyncBatchNorm(" << options.num_features()
         << ", eps=" << options.eps() << ", momentum=";
  if (options.momentum()) {
    stream << *options.momentum();
  } else {
    stream << "None";
  }
  stream << ", affine=" << options.affine()
         << ", track_running_stats=" << options.track_running_stats() << ')';
}

at::Tensor SyncBatchNormImpl::forward(const at::Tensor& input) {
  if (!is_training() || !is_initialized()) return plain_forward(input);
  TORCH_CHECK_VALUE(process_group.is_member(), kSyncBatchNorm, ": rank ", get_rank(),
                    " is not in its process_group");
  return get_world_size(process_group) == 1 ? plain_forward(input) : synchronized_forward(input);
}

// Counts a batch of training, and returns its share of the running statistics.
double SyncBatchNormImpl::count_batch() {
  if (!num_batches_tracked.defined()) return options.momentum().value_or(0);
  num_batches_tracked.add_(1);
  // Without a momentum, running statistics are the mean over all batches.
  return options.momentum() ? *options.momentum() : 1 / num_batches_tracked.item<double>();
}

at::Tensor SyncBatchNormImpl::plain_forward(const at::Tensor& input) {
  const std::string problem = problem_with(input, *this);
  TORCH_CHECK_VALUE(problem.empty(), kSyncBatchNorm, ": ", problem);
  const bool uses_batch = is_training() || !running_mean.defined();
  TORCH_CHECK_VALUE(!uses_batch || internal::values_per_channel(input) != 1, kSyncBatchNorm,
                    ": expected more than 1 value per channel when training, got input size ",
                    input.sizes());
  // The operator requires the parameters and the running statistics in one dtype.
  const auto cast = [&](const at::Tensor& one) {
    return one.defined() ? one.to(statistics_dtype(input.scalar_type())) : one;
  };
  const at::Tensor mean = cast(running_mean), variance = cast(running_var);
  at::Tensor result = at::batch_norm(input, cast(weight), cast(bias), mean, variance, uses_batch,
                                     is_training() && input.numel() > 0 ? count_batch() : 0,
                                     options.eps(), at::globalContext().userEnabledCuDNN());
  if (is_training() && !mean.is_same(running_mean)) {
    running_mean.copy_(mean);
    running_var.copy_(variance);
  }
  return result;
}

at::Tensor SyncBatchNormImpl::synchronized_forward(const at::Tensor& input) {
  const at::Tensor& one = any_tensor(*this).defined() ? any_tensor(*this) : input;
  const c10::Device device = one.defined() ? one.device() : c10::Device(at::kCPU);
  const std::int64_t channels = options.num_features();
  // Not the Group: Group() also equals itself after destroy_process_group() and another
  // init_process_group().
  const auto& group = process_group.process_group();
  using WeakGroup = c10::weak_intrusive_ptr<c10d::ProcessGroup>;
  const auto* const compared = static_cast<const WeakGroup*>(compared_in_.get());
  if (compared == nullptr || compared->lock() != group) {
    internal::compare_channels(channels, device, process_group);
    compared_in_ = std::make_shared<WeakGroup>(group);
  }
  OwnBatch own = {.problem = problem_with(input, *this), .graph = graph_kind(input, *this)};
  AllBatches all;
  at::Tensor contiguous = input;
  if (own.problem.empty()) contiguous = input.contiguous(input.suggest_memory_format());
  {
    const at::NoGradGuard no_grad;
    own.statistics = internal::statistics_of(
        own.problem.empty()
            ? contiguous
            : at::empty({0, channels}, at::TensorOptions(at::kFloat).device(device)));
    all = internal::exchange_batches(own, process_group);
    if (running_mean.defined() && all.statistics.count > 0) {
      internal::update_running_statistics(running_mean, running_var, all.statistics, count_batch());
    }
  }
  return internal::normalize(contiguous, weight, bias, options.eps(), all, process_group);
}

}  // namespace distrun
