#include "distrun/apply_optimizer_in_backward.h"

#include <algorithm>
#include <cstddef>
#include <mutex>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>
#include <c10/util/Exception.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include "distrun/collectives.h"
#include "distrun/comm_hook.h"
#include "distrun/ddp_reducer.h"
#include "distrun/process_group.h"
#include "parallel/ddp/flat_parts.h"
#include "parallel/optim/narrowed_groups.h"

namespace distrun::internal {

namespace {

using torch::optim::Optimizer;

constexpr const char* kInBackward = "apply_optimizer_in_backward";

// Lets an optimizer update one parameter at a time. A backward with several GPUs has several
// threads, and the hook of a bucket may run on another thread than the next one.
class ParameterStepper {
 public:
  explicit ParameterStepper(const std::shared_ptr<Optimizer>& optimizer) : optimizer_(optimizer) {
    for (std::size_t g = 0; g < optimizer->param_groups().size(); ++g) {
      for (const at::Tensor& one : optimizer->param_groups()[g].params()) {
        group_of_[one.unsafeGetTensorImpl()] = g;
      }
    }
  }

  bool has(const at::Tensor& parameter) const {
    return group_of_.contains(parameter.unsafeGetTensorImpl());
  }

  // Updates the parameter with its gradient. Returns false if the optimizer does not exist anymore,
  // or does not have this parameter.
  bool step(const at::Tensor& parameter) {
    const auto optimizer = optimizer_.lock();
    const auto group = group_of_.find(parameter.unsafeGetTensorImpl());
    if (!optimizer || group == group_of_.end()) return false;
    const std::lock_guard lock(mutex_);
    TORCH_CHECK(group->second < optimizer->param_groups().size(), kInBackward,
                ": a parameter group was removed; make another optimizer instead");
    std::vector<std::vector<at::Tensor>> lists(optimizer->param_groups().size());
    lists[group->second] = {parameter};
    const NarrowedGroups one(*optimizer, std::move(lists));
    optimizer->step();
    return true;
  }

 private:
  std::weak_ptr<Optimizer> optimizer_;  // It has the parameters, which own the hooks.
  std::unordered_map<const c10::TensorImpl*, std::size_t> group_of_;
  std::mutex mutex_;
};

// Runs when a gradient is complete on this rank.
class StepWithGradient : public torch::autograd::PostAccumulateGradHook {
 public:
  StepWithGradient(std::shared_ptr<ParameterStepper> stepper,
                   std::unique_ptr<PostAccumulateGradHook> earlier)
      : stepper_(std::move(stepper)), earlier_(std::move(earlier)) {}

  void operator()(const at::Tensor& parameter) override {
    if (step(parameter)) parameter.mutable_grad().reset();
  }

 private:
  // The gradient stays for the next optimizer.
  bool step(const at::Tensor& parameter) {
    bool has_stepped = false;
    if (auto* const ours = dynamic_cast<StepWithGradient*>(earlier_.get())) {
      has_stepped = ours->step(parameter);
    } else {
      if (earlier_) (*earlier_)(parameter);
      check_is_not_reduced_later(parameter);
    }
    return stepper_->step(parameter) || has_stepped;
  }

  static void check_is_not_reduced_later(const at::Tensor& parameter) {
    const auto accumulator = torch::autograd::impl::try_get_grad_accumulator(parameter);
    TORCH_CHECK(!accumulator || accumulator->post_hooks().empty(), kInBackward,
                ": a parameter belongs to a DistributedDataParallel, which reduces its gradient "
                "after this update; pass ddp.reducer() as the first argument");
  }

  std::shared_ptr<ParameterStepper> stepper_;
  std::unique_ptr<PostAccumulateGradHook> earlier_;
};

// Updates the parameters of a bucket after its reduction.
class StepWithBucket {
 public:
  StepWithBucket(std::shared_ptr<Optimizer> optimizer, Group group)
      : optimizer_(std::move(optimizer)),
        stepper_(std::make_shared<ParameterStepper>(optimizer_)),
        group_(std::move(group)),
        ranks_(get_world_size(group_)) {}

  Future operator()(c10d::GradBucket& bucket) const {
    // In the order of DistributedDataParallel, for the same rounding.
    bucket.getBufferRef().mul_(1.0 / ranks_);
    const Work sum =
        all_reduce(bucket.getBuffer(), ReduceOp::SUM, {.group = group_, .async_op = true});
    return sum.get_future()->then(
        [stepper = stepper_,
         parameters = bucket.getParameters()](c10::ivalue::Future& done) -> c10::IValue {
          at::Tensor reduced = done.value().toTensorVector()[0];
          // Autograd must not know that the gradients are views.
          const at::AutoDispatchBelowADInplaceOrView no_views;
          const std::vector<at::Tensor> gradients = parts_like(reduced, parameters);
          for (std::size_t i = 0; i < parameters.size(); ++i) {
            use_gradient(*stepper, parameters[i], gradients[i]);
          }
          return reduced;
        },
        c10::TensorType::get());
  }

 private:
  static void use_gradient(ParameterStepper& stepper, const at::Tensor& parameter,
                           const at::Tensor& reduced) {
    at::Tensor& gradient = parameter.mutable_grad();
    if (stepper.has(parameter)) {
      gradient = reduced;
      stepper.step(parameter);
      gradient.reset();
    } else if (!gradient.defined()) {
      gradient = reduced.clone();
    } else if (!gradient.is_alias_of(reduced)) {
      gradient.copy_(reduced);
    }
  }

  std::shared_ptr<Optimizer> optimizer_;
  std::shared_ptr<ParameterStepper> stepper_;
  Group group_;
  int ranks_;
};

template <class Visit>
void for_each_parameter(Optimizer& optimizer, const Visit& visit) {
  for (std::size_t g = 0; g < optimizer.param_groups().size(); ++g) {
    const std::vector<at::Tensor>& parameters = optimizer.param_groups()[g].params();
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      visit(c10::str("parameter ", i, " of group ", g), parameters[i]);
    }
  }
}

}  // namespace

void step_in_backward(const std::shared_ptr<Optimizer>& optimizer) {
  const auto stepper = std::make_shared<ParameterStepper>(optimizer);
  std::unordered_set<const c10::TensorImpl*> seen;
  for_each_parameter(*optimizer, [&](const std::string& /*name*/, const at::Tensor& one) {
    if (!seen.insert(one.unsafeGetTensorImpl()).second) return;
    auto& hook = torch::autograd::impl::post_acc_grad_hooks(one);
    auto ours = std::make_unique<StepWithGradient>(stepper, std::move(hook));
    torch::autograd::impl::set_post_acc_grad_hooks(one, std::move(ours));
  });
}

void step_in_backward(DdpReducer& ddp, const std::shared_ptr<Optimizer>& optimizer) {
  const auto options = ddp.get_ddp_logging_data().ints_map;
  const auto finds_unused = options.find("find_unused_parameters");
  TORCH_CHECK_VALUE(finds_unused == options.end() || finds_unused->second == 0, kInBackward,
                    ": the DistributedDataParallel has find_unused_parameters, and would update a "
                    "parameter that no rank uses; expected a model that uses all parameters");
  std::unordered_set<const c10::TensorImpl*> reduced;
  for (const c10d::GradBucket& bucket : ddp.reducer().get_grad_buckets(true)) {
    for (const at::Tensor& one : bucket.getParameters()) reduced.insert(one.unsafeGetTensorImpl());
  }
  for_each_parameter(*optimizer, [&](const std::string& name, const at::Tensor& one) {
    TORCH_CHECK_VALUE(reduced.contains(one.unsafeGetTensorImpl()), kInBackward, ": ", name,
                      " is not a parameter that the DistributedDataParallel reduces; list "
                      "parameters of its module that require a gradient");
  });
  ddp.register_comm_hook(StepWithBucket(optimizer, ddp.join_process_group()), kInBackward);
  ddp.set_optimizer_in_backward();
}

}  // namespace distrun::internal
