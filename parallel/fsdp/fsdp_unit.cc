#include "parallel/fsdp/fsdp_unit.h"

#include <ATen/core/grad_mode.h>
#include <c10/util/Exception.h>
#include <torch/csrc/autograd/engine.h>

namespace distrun::internal {

namespace {

bool same(const std::weak_ptr<FsdpUnit>& one, const FsdpUnit& other) {
  return one.lock().get() == &other;
}

}  // namespace

FsdpUnit::FsdpUnit(Private /*only make() constructs*/, std::vector<NamedTensor> parameters,
                   const FsdpOptions& options)
    : options_(options), parameters_(std::move(parameters), options) {}

std::shared_ptr<FsdpUnit> FsdpUnit::make(std::vector<NamedTensor> parameters,
                                         const FsdpOptions& options) {
  auto unit = std::make_shared<FsdpUnit>(Private(), std::move(parameters), options);
  unit->watch_gradients();
  return unit;
}

void FsdpUnit::watch_gradients() {
  for (const NamedTensor& one : parameters_.parameters()) {
    if (!one.tensor.requires_grad()) continue;
    one.tensor.register_hook([its = weak_from_this(), name = one.name](const at::Tensor&) {
      const auto unit = its.lock();
      TORCH_CHECK(!unit || unit->is_in_backward_,
                  "FullyShardedDataParallel: a gradient has reached parameter '", name,
                  "', but no result of the forward() of its unit; call backward() only on tensors "
                  "that are computed from results of forward()");
    });
  }
}

bool FsdpUnit::is_root() const { return same(tree_->units.back(), *this); }

bool FsdpUnit::reshards_after_forward() const {
  return options_.reshard_after_forward.value_or(!is_root());
}

void FsdpUnit::before_forward() {
  FsdpTree& tree = *tree_;
  if (tree.depth++ == 0 && !tree.is_in_backward()) {
    tree.reset_after_failure();
    tree.last_order = std::exchange(tree.order, {});
    // An optimizer may have taken a step.
    tree.for_each([](FsdpUnit& unit) {
      if (unit.parameters_.is_hidden()) unit.parameters_.reshard();
    });
  }
  const std::size_t place = tree.order.size();
  tree.order.push_back(weak_from_this());
  parameters_.finish_unshard();
  if (!options_.prefetch || place + 1 >= tree.last_order.size()) return;
  const auto next = tree.last_order[place + 1].lock();
  if (next && same(tree.last_order[place], *this)) next->parameters_.start_unshard();
}

void FsdpUnit::after_forward(FsdpForwardCall& call, bool needs_backward) {
  FsdpTree& tree = *tree_;
  --tree.depth;
  if (is_in_backward_) return;  // A forward that is repeated in backward.
  if (needs_backward) {
    call.previous_ = std::exchange(tree.last_ended, weak_from_this());
  }
  if (reshards_after_forward() || !needs_backward) {
    parameters_.reshard();
  } else {
    parameters_.hide();
  }
  // No backward frees what was gathered for a unit that this forward did not need.
  if (tree.depth == 0 && !needs_backward) {
    tree.for_each([](FsdpUnit& unit) { unit.parameters_.reshard(); });
  }
}

void FsdpUnit::before_backward(const FsdpForwardCall& call) {
  tree_->begin_backward();
  tree_->reduces = tree_->reduces || call.reduces_;
  reduces_ = reduces_ || call.reduces_;
  if (!is_in_backward_) {
    is_in_backward_ = true;
    if (parameters_.is_reducing()) tree_->finish_reduce();  // The unit is used twice.
    parameters_.finish_unshard();
    parameters_.begin_gradients();
  }
  if (!options_.prefetch) return;
  const auto next = call.previous_.lock();
  if (next && next.get() != this) next->parameters_.start_unshard();
}

void FsdpUnit::after_backward() {
  if (!std::exchange(is_in_backward_, false)) return;
  const bool reduces = std::exchange(reduces_, false);
  auto gradients = parameters_.take_gradients();
  // First, so that less memory is in use at a time.
  parameters_.reshard();
  if (!parameters_.need_gradients()) return;
  if (!reduces) return parameters_.keep(std::move(gradients));
  tree_->finish_reduce();
  parameters_.start_reduce(std::move(gradients));
  tree_->reducing = weak_from_this();
}

void FsdpUnit::reduce_kept() {
  if (!parameters_.keeps_gradients()) return;
  tree_->finish_reduce();
  parameters_.start_reduce({});
  tree_->reducing = weak_from_this();
}

void FsdpUnit::reset() {
  is_in_backward_ = false;
  reduces_ = false;
  parameters_.abandon();
}

FsdpForwardCall::FsdpForwardCall(std::shared_ptr<FsdpUnit> unit)
    : unit_(std::move(unit)), reduces_(unit_->tree()->syncs) {
  try {
    unit_->before_forward();
  } catch (...) {
    close();
    throw;
  }
}

at::Tensor FsdpForwardCall::input(const at::Tensor& tensor) {
  if (unit_->parameters().empty()) return tensor;
  at::Tensor its = tensor.to(unit_->parameters().device());
  const MixedPrecisionPolicy& policy = unit_->options().mp_policy;
  if (policy.param_dtype && policy.cast_forward_inputs && its.is_floating_point()) {
    its = its.to(*policy.param_dtype);
  }
  if (!at::GradMode::is_enabled() || !its.requires_grad()) return its;
  // The hook runs when all uses of the view have contributed to its gradient.
  its = its.view_as(its);
  ++inputs_;
  its.register_hook([call = shared_from_this()](const at::Tensor& /*gradient*/) {
    if (++call->gradients_of_inputs_ % call->inputs_ == 0) call->unit_->after_backward();
  });
  return its;
}

std::vector<at::Tensor> FsdpForwardCall::end(std::vector<at::Tensor> outputs) {
  const auto& dtype = unit_->options().mp_policy.output_dtype;
  bool needs_backward = false;
  for (at::Tensor& output : outputs) {
    if (!output.defined()) continue;
    TORCH_CHECK(!unit_->parameters().has_memory_of(output),
                "FullyShardedDataParallel: forward() returns a parameter or a view of one, whose "
                "memory is freed; return a clone()");
    if (dtype && output.is_floating_point()) output = output.to(*dtype);
    if (!output.requires_grad()) continue;
    if (output.is_leaf()) output = output.view_as(output);  // A hook would stay with it.
    needs_backward = true;
    output.register_hook([call = shared_from_this()](const at::Tensor& /*gradient*/) {
      call->unit_->before_backward(*call);
    });
  }
  has_ended_ = true;
  unit_->after_forward(*this, needs_backward);
  return outputs;
}

void FsdpForwardCall::close() {
  if (std::exchange(has_ended_, true)) return;
  FsdpTree& tree = *unit_->tree();
  if (--tree.depth > 0 || tree.is_in_backward()) return;
  tree.order.clear();
  tree.for_each([](FsdpUnit& unit) { unit.parameters().release(); });
}

void FsdpTree::begin_backward() {
  if (is_in_backward()) return;
  reset_after_failure();
  // The engine drops its callbacks if backward throws, and with them the last owner.
  const auto running = std::make_shared<int>();
  backward = running;
  torch::autograd::Engine::get_default_engine().queue_callback(
      [tree = shared_from_this(), running] { tree->finish_backward(); });
}

void FsdpTree::finish_reduce() {
  if (const auto unit = std::exchange(reducing, {}).lock()) unit->parameters().finish_reduce();
}

void FsdpTree::finish_backward() {
  // In the order of backward, which is the same on every rank.
  for (auto one = units.rbegin(); one != units.rend(); ++one) {
    if (const auto unit = one->lock()) unit->after_backward();
  }
  for (auto one = units.rbegin(); reduces && one != units.rend(); ++one) {
    if (const auto unit = one->lock()) unit->reduce_kept();
  }
  reduces = false;
  finish_reduce();
  for_each([](FsdpUnit& unit) { unit.parameters().reshard(); });
  last_ended.reset();
  backward.reset();
}

void FsdpTree::reset_after_failure() {
  bool has_failed = false;
  for_each([&](FsdpUnit& unit) {
    has_failed = has_failed || unit.is_in_backward() || unit.parameters().is_reducing();
  });
  if (has_failed) reset();
}

void FsdpTree::reset() {
  reduces = false;
  reducing.reset();
  last_ended.reset();
  for_each([](FsdpUnit& unit) { unit.reset(); });
}

}  // namespace distrun::internal
