#include "distrun/ddp_zero_hook.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <c10/util/Exception.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include "distrun/process_group.h"
#include "parallel/agreement/rank_agreement.h"
#include "parallel/ddp/checked_comm_hook.h"
#include "parallel/ddp/ddp_core.h"
#include "parallel/ddp/late_future.h"
#include "parallel/optim/bucket_updates.h"
#include "parallel/optim/zero_redundancy_impl.h"

namespace distrun::internal {

namespace {

constexpr const char* kZeroHook = "hook_with_zero_step";

using ZeroImpl = ZeroRedundancyCore::Impl;

// The parameters whose gradients the DistributedDataParallel reduces, in the Reducer's order.
std::vector<DdpParameter> reduced_by(const DdpCore& ddp) {
  std::vector<DdpParameter> reduced = ddp.model.parameters;
  std::erase_if(reduced, [](const DdpParameter& one) { return !one.tensor.requires_grad(); });
  return reduced;
}

std::string text_of_ranks(const Group& group) {
  std::string text;
  for (const int rank : get_process_group_ranks(group)) {
    text += c10::str(text.empty() ? "" : ", ", rank);
  }
  return text;
}

// Returns why the optimizer cannot update the parameters, or "".
std::string error_in_zero_hook(const CommHook& hook, const DdpCore& ddp, const ZeroImpl& zero) {
  if (!hook) return "the hook is empty; pass one, such as allreduce_hook";
  if (!zero.overlaps_with_ddp) {
    return "the ZeroRedundancyOptimizer was constructed without overlap_with_ddp; set the option";
  }
  if (ddp.low_precision) {
    return "the DistributedDataParallel has mixed_precision with a param_dtype, which its "
           "parameters have until backward() ends; call step() without overlap_with_ddp instead";
  }
  if (ddp.converts_gradients) {
    return "the DistributedDataParallel has mixed_precision that converts gradients, which a hook "
           "cannot reduce; set its reduce_dtype to the parameters' dtype";
  }
  const Group& group = ddp.options.process_group;
  if (get_process_group_ranks(zero.group) != get_process_group_ranks(group)) {
    return "the ZeroRedundancyOptimizer has ranks " + text_of_ranks(zero.group) +
           ", and the DistributedDataParallel has ranks " + text_of_ranks(group) +
           "; use the same process_group";
  }
  ParameterSet reduced;
  for (const DdpParameter& one : reduced_by(ddp)) {
    if (one.sparse_gradient && zero.groups.place_of(one.tensor)) {
      return "the gradient of the parameter '" + one.name + "' is sparse; use dense gradients";
    }
    reduced.insert(one.tensor.unsafeGetTensorImpl());
  }
  for (std::size_t g = 0; g < zero.groups.size(); ++g) {
    const std::vector<at::Tensor>& parameters = zero.groups.parameters_of(g);
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const at::Tensor& one = parameters[i];
      if (!one.requires_grad() || reduced.contains(one.unsafeGetTensorImpl())) continue;
      return c10::str("parameter ", i, " of group ", g,
                      " is not a parameter that the DistributedDataParallel reduces; list "
                      "parameters of its module");
    }
  }
  return "";
}

// What the ranks must have in common to send the parameters of the same buckets.
std::string description_of_zero_hook(const DdpCore& ddp, const ZeroImpl& zero,
                                     ZeroStepOrder order) {
  std::string text = order == ZeroStepOrder::kInterleaved ? "hook_with_zero_step_interleaved\n"
                                                          : "hook_with_zero_step\n";
  for (const DdpParameter& one : reduced_by(ddp)) {
    const auto place = zero.groups.place_of(one.tensor);
    text += "the parameter '" + one.name + "' " +
            (place ? c10::str("on group rank ", place->owner, "\n") : "without optimizer\n");
  }
  return text;
}

// The engine handles no exceptions of other types.
[[noreturn]] void throw_in_engine(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception&) {
    throw;
  } catch (...) {
    TORCH_CHECK(false, kZeroHook,
                ": the optimizer threw an exception that does not derive from std::exception");
  }
}

// The object at `place`, which lives as long as any hook that owns it.
std::shared_ptr<const void> owned_by_hooks(std::weak_ptr<const void>& place) {
  std::shared_ptr<const void> owned = place.lock();
  if (!owned) place = owned = std::make_shared<int>();
  return owned;
}

// The hook. When it has seen all gradients, callbacks run at the end of backward(), in this order:
//
//     1. updates_->finish() updates the parameters that are left.
//     2. The Reducer sets grad(). Without this callback, it rejects the next forward.
//     3. If an update of any rank failed, a callback throws.
//
// With reentrant checkpointing, it is the end of the nested backward() that computes the last
// gradients. If only the reduction shows which parameters are used, step() follows the Reducer
// instead.
class ZeroHook : public std::enable_shared_from_this<ZeroHook> {
 public:
  ZeroHook(CommHook hook, DdpCore& ddp, const std::shared_ptr<ZeroImpl>& zero, ZeroStepOrder order)
      : hook_(checked_comm_hook(std::move(hook), kZeroHook)),
        zero_(zero),
        owned_by_zero_hooks_{owned_by_hooks(ddp.zero_hooks), owned_by_hooks(zero->zero_hooks)},
        order_(order),
        reduced_(reduced_by(ddp)),
        reducing_(ddp.options.process_group),
        reducer_(ddp.reducer),
        is_static_(ddp.options.static_graph),
        steps_at_end_(is_static_ || ddp.options.find_unused_parameters) {
    for (const DdpParameter& one : reduced_) known_.insert(one.tensor.unsafeGetTensorImpl());
    used_ = known_;
  }

  Future run(c10d::GradBucket& bucket) {
    const std::shared_ptr<ZeroImpl> zero = zero_.lock();
    TORCH_CHECK(zero, kZeroHook,
                ": the ZeroRedundancyOptimizer was destroyed; keep it as long as the "
                "DistributedDataParallel trains");
    const std::vector<at::Tensor> parameters = bucket.getParameters();
    check_ddp(std::all_of(parameters.begin(), parameters.end(), [&](const at::Tensor& one) {
      return known_.contains(one.unsafeGetTensorImpl());
    }));
    take_late_future();
    Future gradients = hook_->runHook(bucket);
    const ReducedBucket reduced{parameters, gradients, /*is_late=*/take_late_future()};
    if (steps_at_end_) {
      step_at_end(zero);
    } else {
      update(bucket, reduced, zero);
    }
    return gradients;
  }

 private:
  static void check_ddp(bool is_known) {
    TORCH_CHECK(is_known, kZeroHook,
                ": the hook was made for another DistributedDataParallel; pass the reducer() of "
                "the one that registers it");
  }

  void update(const c10d::GradBucket& bucket, const ReducedBucket& reduced,
              const std::shared_ptr<ZeroImpl>& zero) {
    // A backward() that threw has left its updates.
    if (bucket.getIndex() == 0) updates_.reset();
    if (!updates_) updates_ = std::make_unique<BucketUpdates>(*zero, reducing_, used_);
    const bool had_all = updates_->has_all();  // Later buckets can have unused parameters only.
    updates_->add(reduced);
    check_ddp(updates_->has_all() || !bucket.isLast());
    if (order_ == ZeroStepOrder::kInterleaved) updates_->update_all_but(1);
    if (had_all || !updates_->has_all()) return;
    at_end([me = shared_from_this(), zero] { me->finish_updates(); });
  }

  void finish_updates() {
    const std::unique_ptr<BucketUpdates> updates = std::move(updates_);
    if (const std::exception_ptr error = updates->finish()) {
      at_end([error] { throw_in_engine(error); });
    }
  }

  // Once in a backward(), whose buckets may be skipped, or have the same index. The callback owns
  // the mark, so no mark remains if backward() throws.
  void step_at_end(const std::shared_ptr<ZeroImpl>& zero) {
    if (!mark_.expired()) return;
    const auto mark = std::make_shared<int>();
    mark_ = mark;
    at_end([me = shared_from_this(), zero, mark] {
      me->mark_.reset();
      at_end([me, zero] { me->update_everything(*zero); });  // After the Reducer's callback.
    });
  }

  void update_everything(ZeroImpl& zero) {
    if (is_static_) learn_what_is_used();
    try {
      zero.step(nullptr);
    } catch (...) {
      throw_in_engine(std::current_exception());
    }
  }

  void learn_what_is_used() {
    steps_at_end_ = false;
    const auto reducer = reducer_.lock();
    if (!reducer) return;
    const at::Tensor counts = reducer->get_local_used_map_on_device().cpu();
    for (std::size_t i = 0; i < reduced_.size(); ++i) {
      if (counts[static_cast<std::int64_t>(i)].item<int>() != 0) continue;
      used_.erase(reduced_[i].tensor.unsafeGetTensorImpl());
    }
  }

  static void at_end(std::function<void()> callback) {
    torch::autograd::Engine::get_default_engine().queue_callback(std::move(callback));
  }

  std::unique_ptr<c10d::CommHookInterface> hook_;
  std::weak_ptr<ZeroImpl> zero_;
  std::array<std::shared_ptr<const void>, 2> owned_by_zero_hooks_;
  ZeroStepOrder order_;
  std::vector<DdpParameter> reduced_;
  Group reducing_;
  std::weak_ptr<c10d::Reducer> reducer_;  // It has this hook.
  bool is_static_;
  bool steps_at_end_;          // Only the reduction shows which parameters are used on any rank.
  ParameterSet known_, used_;  // `used_` lacks those that no rank uses in a static graph.
  std::unique_ptr<BucketUpdates> updates_;  // Of the running backward().
  std::weak_ptr<int> mark_;
};

}  // namespace

CommHook zero_hook(const CommHook& hook, DdpReducer& ddp, ZeroRedundancyCore& zero,
                   ZeroStepOrder order) {
  DdpCore& core = ddp.core();
  ZeroImpl& impl = *zero.impl();
  impl.take_new_groups();
  const std::string error = error_in_zero_hook(hook, core, impl);
  const std::string lines = error.empty() ? description_of_zero_hook(core, impl, order) : "";
  check_agreement(kZeroHook, {lines, error}, impl.group,
                  "use the same hook, and have the same parameters in the same order");
  const auto its = std::make_shared<ZeroHook>(hook, core, zero.impl(), order);
  return [its](c10d::GradBucket& bucket) { return its->run(bucket); };
}

}  // namespace distrun::internal
