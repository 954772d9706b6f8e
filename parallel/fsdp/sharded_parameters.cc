#include "parallel/fsdp/sharded_parameters.h"

#include <algorithm>
#include <utility>

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "distrun/collectives.h"
#include "distrun/process_group.h"
#include "parallel/fsdp/storage_memory.h"

namespace distrun::internal {

namespace {

std::vector<std::vector<std::int64_t>> sizes_of(const std::vector<NamedTensor>& parameters) {
  std::vector<std::vector<std::int64_t>> sizes;
  sizes.reserve(parameters.size());
  for (const NamedTensor& one : parameters) sizes.push_back(one.tensor.sizes().vec());
  return sizes;
}

at::ScalarType own_dtype(const std::vector<NamedTensor>& parameters) {
  return parameters.empty() ? at::kFloat : parameters.front().tensor.scalar_type();
}

// Half has a small range: a part of the division comes before the sum, as in Python.
double divisor_before(at::ScalarType dtype, int ranks) {
  if (dtype != at::kHalf) return 1;
  int divisor = 1;
  while (ranks % divisor == 0 && ranks / divisor > divisor) divisor *= 2;
  return divisor;
}

}  // namespace

ShardedParameters::ShardedParameters(std::vector<NamedTensor> parameters,
                                     const FsdpOptions& options)
    : parameters_(std::move(parameters)),
      group_(options.process_group),
      rank_(group_->getRank()),
      ranks_(group_->getSize()),
      param_dtype_(options.mp_policy.param_dtype.value_or(own_dtype(parameters_))),
      reduce_dtype_(options.mp_policy.reduce_dtype.value_or(param_dtype_)),
      layout_(sizes_of(parameters_), ranks_) {
  if (parameters_.empty()) return;
  const at::NoGradGuard no_grad;
  const auto like = parameters_.front().tensor.options().requires_grad(false);
  // Zeros, because the padding takes part in sums and norms.
  at::Tensor all = at::zeros({layout_.total()}, like);
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    all.narrow(0, layout_.offset(i), layout_.numel(i))
        .copy_(parameters_[i].tensor.detach().reshape({-1}));
  }
  if (options.sync_module_states) broadcast(all, GroupRank(0), {.group = group_});
  const std::int64_t size = layout_.shard_size();
  shard_ = all.narrow(0, rank_ * size, size).clone();
  full_ = at::empty({layout_.total()}, like.dtype(param_dtype_));
  free_memory(full_);
  show_shards();
}

void ShardedParameters::show_shards() {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const ShardRange range = layout_.range_of(i, rank_);
    parameters_[i].tensor.set_data(shard_.narrow(0, range.in_shard, range.size));
  }
}

void ShardedParameters::check_data() const {
  for (const NamedTensor& one : parameters_) {
    TORCH_CHECK(one.tensor.storage().is_alias_of(shard_.storage()),
                "FullyShardedDataParallel: the data of parameter '", one.name,
                "' were replaced, for example by torch::load() or to(); use "
                "load_full_state_dict(), and convert modules before they are sharded");
  }
}

bool ShardedParameters::need_gradients() const {
  return std::any_of(parameters_.begin(), parameters_.end(),
                     [](const NamedTensor& one) { return one.tensor.requires_grad(); });
}

bool ShardedParameters::has_memory_of(const at::Tensor& tensor) const {
  return !empty() && tensor.has_storage() && tensor.storage().is_alias_of(full_.storage());
}

void ShardedParameters::start_unshard() {
  if (empty() || state_ != State::kSharded) return;
  check_data();
  const at::NoGradGuard no_grad;
  allocate_memory(full_);
  state_ = State::kGathering;
  if (ranks_ == 1) {
    full_.copy_(shard_);
    return;
  }
  sent_ = shard_.to(param_dtype_);
  gathering_ = all_gather_into_tensor(full_, sent_, {.group = group_, .async_op = true});
}

void ShardedParameters::finish_unshard() {
  if (empty() || state_ == State::kUnsharded) return;
  start_unshard();
  gathering_.wait();
  gathering_ = Work();
  sent_ = at::Tensor();
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    parameters_[i].tensor.set_data(
        full_.narrow(0, layout_.offset(i), layout_.numel(i)).view(layout_.sizes(i)));
  }
  state_ = State::kUnsharded;
}

void ShardedParameters::hide() {
  if (state_ != State::kUnsharded) return;
  show_shards();
  state_ = State::kHidden;
}

void ShardedParameters::reshard() {
  if (state_ == State::kSharded) return;
  if (state_ == State::kGathering) gathering_.wait();  // It still writes.
  gathering_ = Work();
  sent_ = at::Tensor();
  show_shards();
  free_memory(full_);
  state_ = State::kSharded;
}

void ShardedParameters::begin_gradients() {
  if (has_begun_gradients_) return;
  has_begun_gradients_ = true;
  shard_gradients_.clear();
  for (NamedTensor& one : parameters_) {
    shard_gradients_.push_back(std::exchange(one.tensor.mutable_grad(), at::Tensor()));
  }
}

std::vector<at::Tensor> ShardedParameters::take_gradients() {
  std::vector<at::Tensor> gradients;
  if (!std::exchange(has_begun_gradients_, false)) return gradients;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    at::Tensor& its = parameters_[i].tensor.mutable_grad();
    gradients.push_back(std::exchange(its, std::move(shard_gradients_[i])));
  }
  return gradients;
}

// Frees each gradient when it is copied. Zeros for parameters without one: other ranks can have it,
// or the list is empty.
at::Tensor ShardedParameters::flattened(std::vector<at::Tensor> gradients) const {
  at::Tensor all = at::empty({layout_.total()}, shard_.options().dtype(reduce_dtype_));
  std::int64_t end = 0;  // Of what has been written.
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    all.narrow(0, end, layout_.offset(i) - end).zero_();
    at::Tensor its = all.narrow(0, layout_.offset(i), layout_.numel(i));
    const at::Tensor gradient =
        gradients.empty() ? at::Tensor() : std::exchange(gradients[i], at::Tensor());
    if (gradient.defined()) {
      its.view(layout_.sizes(i)).copy_(gradient.is_sparse() ? gradient.to_dense() : gradient);
    } else {
      its.zero_();
    }
    end = layout_.offset(i) + layout_.numel(i);
  }
  all.narrow(0, end, layout_.total() - end).zero_();
  return all;
}

void ShardedParameters::keep(std::vector<at::Tensor> gradients) {
  const at::NoGradGuard no_grad;
  const at::Tensor all = flattened(std::move(gradients));
  unreduced_ = unreduced_.defined() ? unreduced_.add_(all) : all;
}

void ShardedParameters::start_reduce(std::vector<at::Tensor> gradients) {
  const at::NoGradGuard no_grad;
  at::Tensor all = flattened(std::move(gradients));
  if (unreduced_.defined()) all.add_(std::exchange(unreduced_, at::Tensor()));
  const double divisor = divisor_before(reduce_dtype_, ranks_);
  if (divisor != 1) all.div_(divisor);
  if (ranks_ == 1) {
    reduction_ = Reduction{Work(), at::Tensor(), std::move(all)};
    return;
  }
  // Gloo's reduce_scatter is an all_reduce of a copy, which sends twice as much.
  const bool sums_here = group_->getBackend(device().type())->getBackendName() == "gloo";
  const CollectiveOptions in_background{.group = group_, .async_op = true};
  at::Tensor received =
      at::empty({sums_here ? layout_.total() : layout_.shard_size()}, all.options());
  Work work = sums_here ? all_to_all_single(received, all, {}, {}, in_background)
                        : reduce_scatter_tensor(received, all, ReduceOp::SUM, in_background);
  reduction_ = Reduction{std::move(work), std::move(all), std::move(received)};
}

void ShardedParameters::finish_reduce() {
  if (!reduction_) return;
  Reduction done = std::move(*std::exchange(reduction_, std::nullopt));
  done.work.wait();
  const at::NoGradGuard no_grad;
  done.sent = at::Tensor();
  // This shard's gradients on each rank, or their sum.
  if (done.received.numel() > layout_.shard_size()) {
    done.received = done.received.view({-1, layout_.shard_size()}).sum(0);
  }
  const double divisor = ranks_ / divisor_before(reduce_dtype_, ranks_);
  if (divisor != 1) done.received.div_(divisor);
  const at::Tensor mean = done.received.to(dtype());
  // Autograd must not know that the gradients are views: Optimizer::zero_grad() detaches them.
  const at::AutoDispatchBelowADInplaceOrView no_views;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!parameters_[i].tensor.requires_grad()) continue;
    const ShardRange range = layout_.range_of(i, rank_);
    const at::Tensor its = mean.narrow(0, range.in_shard, range.size);
    at::Tensor& gradient = parameters_[i].tensor.mutable_grad();
    if (gradient.defined()) {
      gradient.add_(its);
    } else {
      gradient = its;
    }
  }
}

void ShardedParameters::abandon() noexcept {
  unreduced_ = at::Tensor();
  reduction_.reset();
  take_gradients();
  release();
}

void ShardedParameters::release() noexcept {
  try {
    reshard();
  } catch (...) {
    // The caller passes on an earlier error. The collective has ended, so it no longer writes.
    gathering_ = Work();
    state_ = State::kUnsharded;
    reshard();
  }
}

at::Tensor ShardedParameters::gathered() const {
  check_data();
  const at::NoGradGuard no_grad;
  at::Tensor all = at::empty({layout_.total()}, shard_.options());
  all_gather_into_tensor(all, shard_, {.group = group_});
  return all;
}

}  // namespace distrun::internal
