// Helpers of tests of hook_with_zero_step() on every rank of a run.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include <torch/optim/adam.h>
#include <torch/optim/sgd.h>

#include "distrun/comm_hooks.h"
#include "distrun/ddp_zero_hook.h"
#include "parallel/ddp/test/ddp_multirank_fixture.h"

namespace distrun {

// Has parameters of two dtypes, and one that no forward uses.
struct MixedNetImpl : torch::nn::Module {
  torch::nn::Linear first, second, third;
  at::Tensor unused;
  MixedNetImpl()
      : first(register_module("first", torch::nn::Linear(3, 5))),
        second(register_module("second", torch::nn::Linear(5, 4))),
        third(register_module("third", torch::nn::Linear(4, 2))),
        unused(register_parameter("unused", at::ones({3}), /*requires_grad=*/false)) {
    third->to(at::kDouble);
  }
  at::Tensor forward(const at::Tensor& x) {
    return third(at::relu(second(at::relu(first(x)))).to(at::kDouble));
  }
};

class ZeroHookMultirankTest : public DdpMultirankTest {
 protected:
  template <class Net = MixedNetImpl, class... Arguments>
  static std::shared_ptr<Net> make_net(const Arguments&... arguments) {
    torch::manual_seed(9);
    return std::make_shared<Net>(arguments...);
  }
  static CommHook mean() { return with_state(Group(), allreduce_hook); }

  template <class Optimizer>
  static CommHook hook_of(bool interleaved, CommHook hook, DdpReducer& ddp,
                          ZeroRedundancyOptimizer<Optimizer>& zero) {
    return interleaved ? hook_with_zero_step_interleaved(std::move(hook), ddp, zero)
                       : hook_with_zero_step(std::move(hook), ddp, zero);
  }

  // Inputs that differ between ranks and steps.
  static at::Tensor batch(int step) { return (data() + 0.7 * step).sin(); }

  // Also compares gradients.
  static void expect_same_values(const torch::nn::Module& actual,
                                 const torch::nn::Module& expected) {
    const Tensors a = actual.parameters(), b = expected.parameters();
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i) {
      EXPECT_TRUE(a[i].equal(b[i])) << "parameter " << i << ": " << a[i] << b[i];
      ASSERT_EQ(a[i].grad().defined(), b[i].grad().defined()) << i;
      if (a[i].grad().defined()) {
        EXPECT_TRUE(a[i].grad().equal(b[i].grad())) << i;
      }
    }
  }
};

}  // namespace distrun
