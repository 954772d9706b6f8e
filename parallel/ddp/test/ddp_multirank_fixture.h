// Helpers of tests of DistributedDataParallel on every rank of a run.
#pragma once

#include <memory>
#include <stdexcept>
#include <string>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/relu.h>
#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <torch/utils.h>

#include "backends/test/multirank_test.h"
#include "distrun/distributed_data_parallel.h"

namespace distrun {

struct TwoLayersImpl : torch::nn::Module {
  torch::nn::Linear first, second;
  TwoLayersImpl()
      : first(register_module("first", torch::nn::Linear(3, 4))),
        second(register_module("second", torch::nn::Linear(4, 2))) {}
  at::Tensor forward(const at::Tensor& x) { return second(at::relu(first(x))); }
};
TORCH_MODULE(TwoLayers);

// forward(i) uses only the i-th of `ranks` + 1 parameters.
struct PartsImpl : torch::nn::Module {
  std::vector<at::Tensor> parts;
  explicit PartsImpl(int ranks) {
    for (int i = 0; i <= ranks; ++i) {
      parts.push_back(register_parameter("part" + std::to_string(i), at::ones({2})));
    }
  }
  at::Tensor forward(int part) { return parts[static_cast<std::size_t>(part)].sum(); }
};

class DdpMultirankTest : public MultirankTest {
 protected:
  // Gives each rank other weights, to detect a missing broadcast.
  void SetUp() override {
    MultirankTest::SetUp();
    torch::manual_seed(static_cast<uint64_t>(get_rank()));
  }

  static at::Tensor data_of(int rank) { return at::arange(6, at::kFloat).view({2, 3}) + rank; }
  static at::Tensor data() { return data_of(get_rank()); }

  // The loss, and the mean of the gradients that each rank computes alone.
  static at::Tensor loss(const at::Tensor& output) { return output.pow(2).sum(); }
  static Tensors mean_gradients(TwoLayersImpl& net) {
    const auto alone = std::make_shared<TwoLayersImpl>();
    {
      const at::NoGradGuard no_grad;
      for (std::size_t i = 0; i < alone->parameters().size(); ++i) {
        alone->parameters()[i].copy_(net.parameters()[i]);
      }
    }
    for (int rank = 0; rank < get_world_size(); ++rank) {
      loss(alone->forward(data_of(rank))).backward();
    }
    Tensors gradients;
    for (const at::Tensor& one : alone->parameters()) {
      gradients.push_back(one.grad() / get_world_size());
    }
    return gradients;
  }

  static void expect_gradients(const torch::nn::Module& net, const Tensors& expected) {
    ASSERT_EQ(net.parameters().size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      ASSERT_TRUE(net.parameters()[i].grad().defined()) << i;
      EXPECT_TRUE(net.parameters()[i].grad().allclose(expected[i], 1e-4)) << i;
    }
  }

  // Also catches other exceptions of backends and hooks, which backward() passes on.
  template <class Act>
  static std::string error_of(const Act& act) {
    try {
      return MultirankTest::error_of(act);
    } catch (const std::runtime_error& error) {
      return error.what();
    }
  }

  static void expect_same_everywhere(const at::Tensor& tensor) {
    const at::Tensor of_first = tensor.detach().clone();
    broadcast(of_first, 0);
    EXPECT_TRUE(tensor.equal(of_first)) << tensor;
  }
};

}  // namespace distrun
