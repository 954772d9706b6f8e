// Helpers of tests of ZeroRedundancyOptimizer on every rank of a run.
#pragma once

#include <cmath>
#include <cstdint>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <gtest/gtest.h>
#include <torch/optim/adam.h>
#include <torch/optim/optimizer.h>
#include <torch/serialize.h>

#include "backends/test/multirank_test.h"
#include "distrun/zero_redundancy_optimizer.h"

namespace distrun {

using torch::optim::OptimizerParamGroup;

class ZeroRedundancyMultirankTest : public MultirankTest {
 protected:
  using Sizes = std::vector<std::vector<std::int64_t>>;
  static inline const Sizes kSizes = {{3, 4}, {4}, {5, 3}, {}, {0}, {2, 2, 2}, {7}, {300, 300}};

  static Tensors parameters_of(const Sizes& all = kSizes, at::ScalarType dtype = at::kFloat) {
    Tensors parameters;
    for (const auto& sizes : all) {
      std::int64_t numel = 1;
      for (const std::int64_t size : sizes) numel *= size;
      parameters.push_back((at::arange(numel, at::kDouble) + 3.0 * parameters.size())
                               .cos()
                               .to(dtype)
                               .view(sizes)
                               .requires_grad_());
    }
    return parameters;
  }

  // The same on every rank.
  static void set_gradients(const Tensors& parameters, int step) {
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const at::Tensor& one = parameters[i];
      one.mutable_grad() = (at::arange(one.numel(), at::kDouble) * 0.7 + 1.3 * step + i)
                               .sin()
                               .view(one.sizes())
                               .to(one.scalar_type());
    }
  }

  static void expect_equal(const Tensors& actual, const Tensors& expected) {
    ASSERT_EQ(actual.size(), expected.size());
    for (std::size_t i = 0; i < actual.size(); ++i) {
      EXPECT_TRUE(actual[i].equal(expected[i])) << "parameter " << i << " on rank " << get_rank();
    }
  }

  static void train(torch::optim::Optimizer& optimizer, const Tensors& parameters, int first,
                    int last) {
    for (int step = first; step < last; ++step) {
      set_gradients(parameters, step);
      optimizer.step();
    }
  }

  template <class Optimizer>
  static std::string saved(const Optimizer& optimizer) {
    std::ostringstream stream;
    torch::save(optimizer, stream);
    return stream.str();
  }
  template <class Optimizer>
  static void load(Optimizer& optimizer, const std::string& bytes) {
    std::istringstream stream(bytes);
    torch::load(optimizer, stream);
  }
};

using ZeroAdam = ZeroRedundancyOptimizer<torch::optim::Adam>;

}  // namespace distrun
