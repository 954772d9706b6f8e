#include "parallel/ddp/low_precision.h"

#include <utility>

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/variable.h>

namespace distrun::internal {

namespace {

template <class Node>
std::weak_ptr<Node> weak(const std::shared_ptr<Node>& node) {
  return node;
}
template <class Node>  // In newer versions of LibTorch.
c10::weak_intrusive_ptr<Node> weak(const c10::intrusive_ptr<Node>& node) {
  return c10::weak_intrusive_ptr<Node>(node);
}

// set_data() of another dtype would drop the gradient accumulator, and with it c10d's hooks.
void replace_data(at::Tensor& parameter, const at::Tensor& data) {
  const auto accumulator = torch::autograd::impl::try_get_grad_accumulator(parameter);
  parameter.set_data(data);
  if (accumulator) torch::autograd::impl::set_grad_accumulator(parameter, weak(accumulator));
}

}  // namespace

// The outputs of a forward, which may need a backward.
struct LowPrecision::Call {
  explicit Call(std::shared_ptr<LowPrecision> owner)
      : its(std::move(owner)), number(its->forwards_) {}
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  ~Call() {
    if (number == its->forwards_) its->restore_if_idle();
  }

  const std::shared_ptr<LowPrecision> its;
  const std::uint64_t number;
};

LowPrecision::LowPrecision(const std::vector<at::Tensor>& parameters, at::ScalarType dtype)
    : dtype_(dtype) {
  for (const at::Tensor& one : parameters) {
    if (one.is_floating_point() && one.scalar_type() != dtype) parameters_.push_back({one, {}});
  }
}

void LowPrecision::begin_forward() {
  ++forwards_;
  copy();
}

std::vector<at::Tensor> LowPrecision::end_forward(std::vector<at::Tensor> outputs) {
  std::shared_ptr<Call> call;
  for (at::Tensor& output : outputs) {
    if (!output.defined() || !output.requires_grad() || !at::GradMode::is_enabled()) continue;
    if (output.is_leaf()) output = output.view_as(output);  // A hook would stay with it.
    if (!call) call = std::make_shared<Call>(shared_from_this());
    output.register_hook([call](const at::Tensor& /*gradient*/) { call->its->begin_backward(); });
  }
  if (!call) restore_if_idle();
  return outputs;
}

void LowPrecision::begin_backward() {
  if (!backward_.expired()) return;
  copy();  // If another backward has ended since the forward.
  // The engine drops its callbacks if backward throws, and with them the last owner.
  const auto running = std::make_shared<int>();
  backward_ = running;
  torch::autograd::Engine::get_default_engine().queue_callback([its = shared_from_this(), running] {
    its->backward_.reset();
    its->restore_if_idle();
  });
}

void LowPrecision::copy() {
  const at::NoGradGuard no_grad;
  for (Parameter& one : parameters_) {
    if (one.values.defined()) continue;
    one.values = one.tensor.detach();
    replace_data(one.tensor, one.values.to(dtype_));
  }
}

void LowPrecision::restore() {
  for (Parameter& one : parameters_) {
    const at::Tensor values = std::exchange(one.values, at::Tensor());
    if (values.defined()) replace_data(one.tensor, values);
  }
}

void LowPrecision::restore_if_idle() {
  if (backward_.expired()) restore();
}

}  // namespace distrun::internal
