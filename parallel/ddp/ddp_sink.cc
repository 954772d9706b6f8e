#include "parallel/ddp/ddp_sink.h"

#include <utility>

#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>

namespace distrun::internal {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct Callback : torch::CustomClassHolder {
  explicit Callback(std::function<void()> to_call) : call(std::move(to_call)) {}
  std::function<void()> call;
};

struct Sink : torch::autograd::Function<Sink> {
  // Takes a TensorList, because autograd does not look for tensors in a vector.
  static variable_list forward(AutogradContext* context, at::TensorList outputs,
                               const c10::intrusive_ptr<Callback>& begin) {
    context->set_materialize_grads(false);
    context->saved_data["begin"] = c10::IValue::make_capsule(begin);
    variable_list copies;
    for (const at::Tensor& output : outputs) copies.push_back(output.clone());
    return copies;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto begin = context->saved_data["begin"].toCapsule();
    c10::static_intrusive_pointer_cast<Callback>(begin)->call();
    gradients.emplace_back();  // For `begin`.
    return gradients;
  }
};

}  // namespace

std::vector<at::Tensor> sink(std::vector<at::Tensor> outputs, std::function<void()> begin) {
  variable_list with_gradient;
  for (const at::Tensor& output : outputs) {
    if (output.defined() && output.grad_fn()) with_gradient.push_back(output);
  }
  if (with_gradient.empty()) return outputs;
  const variable_list copies =
      Sink::apply(at::TensorList(with_gradient), c10::make_intrusive<Callback>(std::move(begin)));
  auto copy = copies.begin();
  for (at::Tensor& output : outputs) {
    if (output.defined() && output.grad_fn()) output = *copy++;
  }
  return outputs;
}

}  // namespace distrun::internal
