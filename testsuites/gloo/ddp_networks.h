// The networks of PyTorch's test_c10d_common.py and test_c10d_gloo.py.
#pragma once

#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>

namespace distrun {

// Without bias, like all layers here.
torch::nn::Linear linear(int64_t inputs, int64_t outputs);

// Three layers and an unused parameter without gradient. Layers may be on different devices, as in
// Python's Net, DoubleGpuNet and QuadrupleGpuNet.
struct LayersImpl : torch::nn::Module {
  torch::nn::Linear fc1{nullptr}, fc2{nullptr}, fc3{nullptr};
  at::Tensor no_grad_param;

  LayersImpl();
  // Layer i moves to devices[i], remaining layers to the last device.
  void spread(const std::vector<c10::Device>& devices);
  at::Tensor forward(at::Tensor x);
};

// Adds its parameter, initially ones.
struct TaskImpl : torch::nn::Module {
  at::Tensor p;
  TaskImpl();
  at::Tensor forward(const at::Tensor& x) { return p + x; }
};

struct ModuleForDdpCommHookImpl : torch::nn::Module {
  std::shared_ptr<TaskImpl> t0;
  ModuleForDdpCommHookImpl() : t0(register_module("t0", std::make_shared<TaskImpl>())) {}
  at::Tensor forward(const at::Tensor& x, int rank) { return t0->forward(x + rank); }
};

// Rank 0 uses the first task, the others the second; the third is unused.
struct GlobalLocalUnusedParamModuleImpl : torch::nn::Module {
  std::shared_ptr<TaskImpl> t0, t1, task_unused;
  GlobalLocalUnusedParamModuleImpl();
  at::Tensor forward(const at::Tensor& x, int rank) {
    return rank == 0 ? t0->forward(x) : t1->forward(x);
  }
};

// Rank 0 uses both tasks, the others the second.
struct FindUnusedParamModuleImpl : torch::nn::Module {
  std::shared_ptr<TaskImpl> t0, t1;
  FindUnusedParamModuleImpl();
  at::Tensor forward(const at::Tensor& x, int rank) {
    return t1->forward(rank == 0 ? t0->forward(x) : x);
  }
};

// The third layer is unused.
struct IgnoredOutputImpl : torch::nn::Module {
  torch::nn::Linear fc1{nullptr}, fc2{nullptr}, fc3{nullptr};
  explicit IgnoredOutputImpl(bool with_unused_parameters);
  at::Tensor forward(const at::Tensor& x);
};

struct SparseGradientModuleImpl : torch::nn::Module {
  torch::nn::EmbeddingBag embedding{nullptr};
  SparseGradientModuleImpl();
  at::Tensor forward(const at::Tensor& x);
};

// `from` and `to` are modules of the same kind.
void copy_parameters(const torch::nn::Module& from, torch::nn::Module& to);

}  // namespace distrun
