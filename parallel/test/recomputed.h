// Reentrant activation checkpointing: Recomputed::apply(x, step) is step(x), and backward()
// computes the step again, with a backward() of its own.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

namespace distrun {

struct Recomputed : torch::autograd::Function<Recomputed> {
  using Context = torch::autograd::AutogradContext;
  using Step = std::function<at::Tensor(const at::Tensor&)>;
  struct Kept : torch::CustomClassHolder {
    explicit Kept(Step its) : step(std::move(its)) {}
    Step step;
  };
  static at::Tensor forward(Context* ctx, const at::Tensor& x, const Step& step) {
    ctx->save_for_backward({x});
    ctx->saved_data["step"] = c10::IValue::make_capsule(c10::make_intrusive<Kept>(step));
    return step(x);
  }
  static std::vector<at::Tensor> backward(Context* ctx, const std::vector<at::Tensor>& gradients) {
    const at::AutoGradMode with_gradients(true);
    const at::Tensor x = ctx->get_saved_variables()[0].detach().requires_grad_();
    const auto capsule = ctx->saved_data.at("step").toCapsule();
    torch::autograd::backward({static_cast<const Kept&>(*capsule).step(x)}, {gradients[0]});
    return {x.grad(), at::Tensor()};
  }
};

}  // namespace distrun
