#include "parallel/ddp/ddp_join_hook.h"

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros_like.h>
#include <c10/util/Exception.h>
#include <torch/csrc/distributed/c10d/comm.hpp>

#include "distrun/collectives.h"
#include "distrun/process_group.h"
#include "parallel/ddp/flat_parts.h"
#include "parallel/ddp/model_sync.h"

namespace distrun::internal {

int agree_on_source(const DdpCore& core, bool is_candidate) {
  const int own = is_candidate ? get_rank(core.options.process_group) : -1;
  const at::Tensor greatest =
      at::full({1}, own, at::TensorOptions(at::kLong).device(core.device()));
  all_reduce(greatest, ReduceOp::MAX, {.group = core.options.process_group});
  const int source = greatest.item<int>();
  TORCH_INTERNAL_ASSERT(source >= 0, "no rank of the join offers its values");
  return source;
}

ReducingAgreement agree_on_reducing(const DdpCore& core, bool backward_reduces) {
  const at::Tensor sum = at::full({1}, backward_reduces ? 1.0 : 0.0, core.device());
  const CollectiveOptions asynchronously{.group = core.options.process_group, .async_op = true};
  return {sum, all_reduce(sum, ReduceOp::SUM, asynchronously)};
}

namespace {

class DdpJoinHook : public JoinHook {
 public:
  explicit DdpJoinHook(DdpCore& core) : its_(core) {}
  DdpJoinHook(const DdpJoinHook&) = delete;
  DdpJoinHook& operator=(const DdpJoinHook&) = delete;
  ~DdpJoinHook() override { put_own_gradients_back(); }

  // Runs the collectives of before_forward() and backward(), in their order.
  void main_hook() override {
    its_.in_group([&] { shadow_forward(); });
    const auto agreed = agree_on_reducing(its_, false);
    agreed.work.wait();
    // If no rank reduces now, the next forward does not synchronize buffers.
    its_.sync_buffers = agreed.sum.item<float>() != 0;
    if (its_.sync_buffers) its_.in_group([&] { shadow_backward(); });
  }

  void post_hook(bool is_last_joiner) override {
    const int source = agree_on_source(its_, is_last_joiner);
    its_.in_group([&] { broadcast_all(its_.group, its_.state(), source); });
    its_.sync_buffers = true;
    // After the join, gradients are divided by the number of all ranks.
    its_.reducer->set_forward_pass_work_handle(nullptr, /*useStaticWorldSize=*/true);
  }

 private:
  void shadow_forward() {
    its_.rebuild_buckets();
    const auto buffers = its_.buffers_to_sync();
    if (buffers.empty()) return;
    broadcast_buffers(its_.group, buffers, agree_on_source(its_, false));
  }

  void shadow_backward() {
    // Only the first backward of a static graph shares the used parameters before it reduces, and
    // it does not record the order of gradients.
    const bool learns = its_.options.static_graph && !*its_.delayed && !its_.has_missed_learning;
    at::Tensor used;
    if (learns) used = share_what_is_used();
    const std::vector<c10d::GradBucket> reduced = reduce_zeros();
    if (its_.options.find_unused_parameters && !its_.options.static_graph) {
      used = share_what_is_used();
    }
    if (learns) {
      its_.has_missed_learning = true;
    } else {
      its_.reducer->push_rebuilt_params_for_all_indices();
    }
    if (its_.optimizer_in_backward) return;
    put_own_gradients_aside();
    for (const c10d::GradBucket& bucket : reduced) take_gradients(bucket);
    if (used.defined()) drop_gradients_of_unused(used);
  }

  // This rank uses none. (Python sends what all ranks used in this rank's last backward.) Returns
  // how many ranks use each parameter.
  at::Tensor share_what_is_used() {
    std::vector<at::Tensor> used = {at::zeros_like(its_.reducer->get_local_used_map_on_device())};
    its_.group->allreduce(used)->wait();
    return used[0];
  }

  // Returns the buckets with the gradients of the other ranks.
  std::vector<c10d::GradBucket> reduce_zeros() {
    std::vector<c10d::GradBucket> buckets =
        its_.reducer->get_grad_buckets(/*return_zero_tensors=*/true);
    std::vector<c10::intrusive_ptr<c10::ivalue::Future>> under_way;
    under_way.reserve(buckets.size());
    for (c10d::GradBucket& bucket : buckets) {
      under_way.push_back(its_.reducer->run_comm_hook(bucket));
    }
    for (std::size_t i = 0; i < buckets.size(); ++i) {
      under_way[i]->waitAndThrow();
      buckets[i].getBufferRef() = c10d::detail::parseCppCommHookResult(under_way[i]->value());
    }
    return buckets;
  }

  // They can be zeros or missing, and a backward after the join adds to them.
  void put_own_gradients_aside() {
    if (!own_gradients_.empty()) return;
    for (const DdpParameter& one : its_.model.parameters) {
      own_gradients_.push_back(std::exchange(one.tensor.mutable_grad(), at::Tensor()));
    }
  }
  void put_own_gradients_back() noexcept {
    for (std::size_t i = 0; i < own_gradients_.size(); ++i) {
      its_.model.parameters[i].tensor.mutable_grad() = std::move(own_gradients_[i]);
    }
  }

  // Sets the gradients of this rank, for an optimizer that takes part in the join.
  static void take_gradients(const c10d::GradBucket& bucket) {
    const at::NoGradGuard no_grad;
    const std::vector<at::Tensor> parameters = bucket.getParameters();
    const std::vector<at::Tensor> values = parts_like(bucket.getBuffer(), parameters);
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      at::Tensor& gradient = parameters[i].mutable_grad();
      if (gradient.defined()) {
        gradient.copy_(values[i]);
      } else {
        gradient = values[i].clone();
      }
    }
  }

  // Other ranks have none either, if they set them to none before each backward.
  void drop_gradients_of_unused(const at::Tensor& used) {
    const at::Tensor counts = used.cpu();
    std::int64_t i = 0;
    for (const DdpParameter& one : its_.model.parameters) {
      if (!one.tensor.requires_grad()) continue;
      if (counts[i++].item<int>() == 0) one.tensor.mutable_grad().reset();
    }
  }

  DdpCore& its_;
  std::vector<at::Tensor> own_gradients_;  // From before the first backward that it shadows.
};

}  // namespace

void check_agreement(DdpCore& core) {
  const auto agreed = std::exchange(core.agreement, std::nullopt);
  if (!agreed) return;
  agreed->work.wait();
  if (core.will_reduce()) return;
  TORCH_CHECK(agreed->sum.item<float>() == 0, "join: the backward of this forward on rank ",
              get_rank(),
              " does not reduce (no gradients, or no_sync()), but another rank's does; in a join, "
              "the n-th forward of a module must be of the same kind on all ranks");
}

std::unique_ptr<JoinHook> ddp_join_hook(DdpCore& core, const JoinArguments& arguments) {
  TORCH_CHECK_VALUE(
      !core.options.skip_all_reduce_unused_params,
      "join: a DistributedDataParallel with skip_all_reduce_unused_params cannot take "
      "part because a joined rank does not know which buckets the others skip");
  TORCH_CHECK_VALUE(
      core.zero_hooks.expired(),
      "join: a DistributedDataParallel with hook_with_zero_step() cannot take part, "
      "because a joined rank has no backward(); use a ZeroRedundancyOptimizer without "
      "overlap_with_ddp");
  for (const DdpParameter& one : core.model.parameters) {
    TORCH_CHECK_VALUE(!one.sparse_gradient || !one.tensor.requires_grad(),
                      "join: the gradient of the parameter '", one.name,
                      "' is sparse, which a joined rank cannot reduce; use dense gradients");
  }
  core.divide_by_initial_world_size = arguments.get("divide_by_initial_world_size", true);
  TORCH_CHECK_VALUE(core.divide_by_initial_world_size || !core.converts_gradients,
                    "join: a DistributedDataParallel whose mixed_precision converts gradients "
                    "divides them by the number of all ranks; leave divide_by_initial_world_size "
                    "true, or set its reduce_dtype to the parameters' dtype");
  core.logger->set_uneven_input_join();
  return std::make_unique<DdpJoinHook>(core);
}

}  // namespace distrun::internal
