#include "testsuites/gloo/ddp_networks.h"

#include <algorithm>

#include <ATen/ATen.h>

namespace distrun {

torch::nn::Linear linear(int64_t inputs, int64_t outputs) {
  return torch::nn::Linear(torch::nn::LinearOptions(inputs, outputs).bias(false));
}

LayersImpl::LayersImpl()
    : fc1(register_module("fc1", linear(2, 10))),
      fc2(register_module("fc2", linear(10, 50))),
      fc3(register_module("fc3", linear(50, 4))),
      no_grad_param(register_parameter("no_grad_param", at::tensor({int64_t{2}, int64_t{2}}),
                                       /*requires_grad=*/false)) {}

void LayersImpl::spread(const std::vector<c10::Device>& devices) {
  const std::vector<torch::nn::Module*> layers = {fc1.get(), fc2.get(), fc3.get()};
  for (std::size_t i = 0; i < layers.size(); ++i) {
    layers[i]->to(devices[std::min(i, devices.size() - 1)]);
  }
  no_grad_param.set_data(no_grad_param.to(devices.front()));
}

at::Tensor LayersImpl::forward(at::Tensor x) {
  x = at::relu(fc1(x)).to(fc2->weight.device());
  x = at::relu(fc2(x)).to(fc3->weight.device());
  return at::softmax(fc3(x), /*dim=*/1);
}

TaskImpl::TaskImpl() : p(register_parameter("p", at::ones({2, 2}))) {}

GlobalLocalUnusedParamModuleImpl::GlobalLocalUnusedParamModuleImpl()
    : t0(register_module("t0", std::make_shared<TaskImpl>())),
      t1(register_module("t1", std::make_shared<TaskImpl>())),
      task_unused(register_module("task_unused", std::make_shared<TaskImpl>())) {}

FindUnusedParamModuleImpl::FindUnusedParamModuleImpl()
    : t0(register_module("t0", std::make_shared<TaskImpl>())),
      t1(register_module("t1", std::make_shared<TaskImpl>())) {}

IgnoredOutputImpl::IgnoredOutputImpl(bool with_unused_parameters)
    : fc1(register_module("fc1", linear(2, 10))), fc2(register_module("fc2", linear(10, 4))) {
  if (with_unused_parameters) fc3 = register_module("fc3", linear(4, 4));
}

at::Tensor IgnoredOutputImpl::forward(const at::Tensor& x) {
  return at::softmax(at::relu(fc2(at::relu(fc1(x)))), /*dim=*/1);
}

SparseGradientModuleImpl::SparseGradientModuleImpl()
    : embedding(register_module(
          "embedding",
          torch::nn::EmbeddingBag(torch::nn::EmbeddingBagOptions(10, 10).sparse(true)))) {}

at::Tensor SparseGradientModuleImpl::forward(const at::Tensor& x) {
  return at::softmax(embedding(x), /*dim=*/1);
}

void copy_parameters(const torch::nn::Module& from, torch::nn::Module& to) {
  const at::NoGradGuard no_grad;
  const auto values = from.parameters();
  auto value = values.begin();
  for (at::Tensor& parameter : to.parameters()) parameter.copy_(*value++);
}

}  // namespace distrun
