#include "parallel/ddp/low_precision.h"

#include <utility>

#include <ATen/core/grad_mode.h>
#include <c10/util/Exception.h>
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

// Owned by the outputs of a forward, for its backward.
struct LowPrecision::Forward {
  std::shared_ptr<LowPrecision> its;
  Tensors copies;  // Empty after a backward, so that outputs which a program keeps need no memory.
};

// The engine's callback owns it. A backward that throws destroys its callbacks without a call.
class LowPrecision::Backward {
 public:
  explicit Backward(std::shared_ptr<LowPrecision> owner) : its_(std::move(owner)) {
    its_->backward_ = this;
  }
  Backward(const Backward&) = delete;
  Backward& operator=(const Backward&) = delete;
  ~Backward() { end(); }

  void end() {
    if (its_->backward_ != this) return;
    its_->backward_ = nullptr;
    its_->restore();
  }

  Tensors copies;

 private:
  std::shared_ptr<LowPrecision> its_;
};

LowPrecision::LowPrecision(const std::vector<at::Tensor>& parameters, at::ScalarType dtype)
    : dtype_(dtype) {
  for (const at::Tensor& one : parameters) {
    if (!one.is_floating_point() || one.scalar_type() == dtype) continue;
    parameters_.push_back({one, one.scalar_type(), {}});
  }
}

void LowPrecision::begin_forward() {
  in_forward_ = copies();
  use(in_forward_);
}

std::vector<at::Tensor> LowPrecision::end_forward(std::vector<at::Tensor> outputs) {
  std::shared_ptr<Forward> forward;
  for (at::Tensor& output : outputs) {
    if (!output.defined() || !output.requires_grad() || !at::GradMode::is_enabled()) continue;
    if (output.is_leaf()) output = output.view_as(output);  // A hook would stay with it.
    if (!forward) forward = std::make_shared<Forward>(Forward{shared_from_this(), in_forward_});
    output.register_hook(
        [forward](const at::Tensor& /*gradient*/) { forward->its->begin_backward(*forward); });
  }
  abandon_forward();
  return outputs;
}

void LowPrecision::abandon_forward() {
  in_forward_.clear();
  restore();
  if (backward_) use(backward_->copies);  // Which runs a forward, such as that of a checkpoint.
}

void LowPrecision::begin_backward(Forward& forward) {
  if (!backward_) {
    auto backward = std::make_shared<Backward>(shared_from_this());
    torch::autograd::Engine::get_default_engine().queue_callback([backward] { backward->end(); });
  }
  Tensors its_copies = std::exchange(forward.copies, {});
  if (!its_copies.empty()) {
    backward_->copies = std::move(its_copies);
  } else if (backward_->copies.empty()) {
    backward_->copies = copies();
  }
  use(backward_->copies);
}

LowPrecision::Tensors LowPrecision::copies() const {
  const at::NoGradGuard no_grad;
  Tensors low;
  low.reserve(parameters_.size());
  for (const Parameter& one : parameters_) low.push_back(one.tensor.detach().to(dtype_));
  return low;
}

void LowPrecision::use(const Tensors& copies) {
  const at::NoGradGuard no_grad;
  for (const Parameter& one : parameters_) {
    const at::ScalarType now = one.tensor.scalar_type();
    TORCH_CHECK_VALUE(now == one.dtype || now == dtype_,
                      "DistributedDataParallel: a parameter with mixed_precision is ", now,
                      "; expected ", one.dtype,
                      ", as at construction; if another DistributedDataParallel gives it another "
                      "param_dtype, run a backward() for each");
  }
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    Parameter& one = parameters_[i];
    if (!one.values.defined()) {
      if (one.tensor.scalar_type() == dtype_) continue;  // Another object has replaced it.
      one.values = one.tensor.detach();
    }
    replace_data(one.tensor, copies[i]);
  }
}

void LowPrecision::restore() {
  for (Parameter& one : parameters_) {
    const at::Tensor values = std::exchange(one.values, at::Tensor());
    if (values.defined()) replace_data(one.tensor, values);
  }
}

}  // namespace distrun::internal
