// Errors of ZeroRedundancyOptimizer.
#include <memory>
#include <stdexcept>
#include <string>

#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <torch/optim/sgd.h>

#include "parallel/optim/test/zero_redundancy_fixture.h"

namespace distrun {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class ZeroRedundancyErrorsMultirankTest : public ZeroRedundancyMultirankTest {
 protected:
  static int last_rank() { return get_world_size() - 1; }
  static bool is_last() { return get_rank() == last_rank(); }
  static std::string on_last() { return " (on rank " + std::to_string(last_rank()) + ")"; }
  // Makes the last rank's first parameter this one.
  static std::string error_with(const at::Tensor& first) {
    Tensors parameters = parameters_of({{3}, {4}});
    if (is_last()) parameters[0] = first;
    return error_of<c10::ValueError>([&] { ZeroAdam(parameters, 0.1); });
  }
};

TEST_F(ZeroRedundancyErrorsMultirankTest, EveryRankRejectsAParameterThatOneRankCannotTrain) {
  const std::string start = "ZeroRedundancyOptimizer: parameter 0 of group 0 is ";
  EXPECT_EQ(error_with(at::Tensor()), start + "undefined" + on_last());
  EXPECT_EQ(error_with(at::ones({3}).to_sparse()),
            start + "Sparse; expected a dense one (to_dense())" + on_last());
  EXPECT_EQ(error_with(at::ones({3}).requires_grad_() * 2),
            start + "not a leaf tensor, so it has no grad()" + on_last());
}

TEST_F(ZeroRedundancyErrorsMultirankTest, EveryRankRejectsGroupsThatOneRankHasWrong) {
  const Tensors parameters = parameters_of({{3}, {4}});
  const auto error_of_groups = [&](const Tensors& second, bool has_wrong_options) {
    std::vector<OptimizerParamGroup> groups;
    groups.emplace_back(parameters);
    groups.emplace_back(second);
    if (has_wrong_options) {
      groups.back().set_options(std::make_unique<torch::optim::SGDOptions>(0.1));
    }
    return error_of<c10::ValueError>([&] { ZeroAdam(groups, 0.1); });
  };
  EXPECT_EQ(error_of_groups(is_last() ? Tensors{parameters[1]} : parameters_of({{4}}), false),
            "ZeroRedundancyOptimizer: parameter 0 of group 1 is in group 0, too; list it in one "
            "group" +
                on_last());
  EXPECT_EQ(error_of_groups(parameters_of({{4}}), is_last()),
            "ZeroRedundancyOptimizer: group 1 has torch::optim::SGDOptions; expected "
            "torch::optim::AdamOptions" +
                on_last());
  EXPECT_EQ(error_of<c10::ValueError>([&] { ZeroAdam(is_last() ? Tensors() : parameters, 0.1); }),
            "ZeroRedundancyOptimizer: the groups have no parameters; pass those of your module" +
                on_last());
}

TEST_F(ZeroRedundancyErrorsMultirankTest, EveryRankRejectsOptionsThatOneRankHasWrong) {
  EXPECT_EQ(error_of<c10::ValueError>([&] { ZeroAdam(parameters_of(), is_last() ? -1.0 : 0.1); }),
            "ZeroRedundancyOptimizer: Invalid learning rate: -1" + on_last());
}

TEST_F(ZeroRedundancyErrorsMultirankTest, RejectsDifferentOptimizersOnEachRank) {
  if (get_world_size() == 1) GTEST_SKIP() << "one rank differs from no other";
  const auto ends = [](const std::string& text) {
    return text + "; all ranks must have the same parameters and options";
  };
  const bool differs = get_rank() == 1;
  EXPECT_EQ(error_of<c10::ValueError>([&] { ZeroAdam(parameters_of({{differs ? 5 : 3}}), 0.1); }),
            ends("ZeroRedundancyOptimizer: rank 1 has parameter 0 of group 0, Float [5] on cpu, "
                 "and rank 0 has parameter 0 of group 0, Float [3] on cpu"));
  Tensors parameters = parameters_of({{3}, {3}});
  parameters[1].requires_grad_(!differs);
  EXPECT_EQ(error_of<c10::ValueError>([&] { ZeroAdam(parameters, 0.1); }),
            ends("ZeroRedundancyOptimizer: rank 1 has parameter 1 of group 0, Float [3] on cpu, "
                 "frozen, and rank 0 has parameter 1 of group 0, Float [3] on cpu"));
  EXPECT_EQ(error_of<c10::ValueError>([&] {
              ZeroAdam(parameters_of(differs ? Sizes{{3}, {3}} : Sizes{{3}}), 0.1);
            }),
            ends("ZeroRedundancyOptimizer: rank 1 has parameter 1 of group 0, Float [3] on cpu, "
                 "and rank 0 has nothing"));
  const std::string of_options =
      error_of<c10::ValueError>([&] { ZeroAdam(parameters_of(), differs ? 0.25 : 0.5); });
  EXPECT_THAT(of_options, StartsWith("ZeroRedundancyOptimizer: rank 1 has torch::optim::Adam with "
                                     "torch::optim::AdamOptions "));
  EXPECT_THAT(of_options, HasSubstr("lr=0.25"));
  EXPECT_THAT(of_options, HasSubstr("lr=0.5"));
  EXPECT_EQ(error_of<c10::ValueError>(
                [&] { ZeroAdam(parameters_of(), 0.1, {.parameters_as_bucket_view = differs}); }),
            ends("ZeroRedundancyOptimizer: rank 1 has parameters_as_bucket_view 1, and rank 0 has "
                 "parameters_as_bucket_view 0"));
  // A bucket is sent as it lies in memory.
  const at::Tensor strided = (differs ? at::ones({3, 2}).t() : at::ones({2, 3})).requires_grad_();
  EXPECT_THAT(error_of<c10::ValueError>(
                  [&] { ZeroAdam(Tensors{strided}, 0.1, {.parameters_as_bucket_view = true}); }),
              HasSubstr("Float [2, 3] with strides [1, 2] on cpu, and rank 0"));
}

TEST_F(ZeroRedundancyErrorsMultirankTest, AGroupThatIsRejectedIsNotAdded) {
  const Tensors parameters = parameters_of({{3}, {4}}),
                plain_parameters = parameters_of({{3}, {4}});
  ZeroAdam zero(parameters, 0.1);
  const auto add = [&](const at::Tensor& one) {
    return error_of([&] { zero.add_param_group(OptimizerParamGroup(Tensors{one})); });
  };
  EXPECT_THAT(add(is_last() ? at::ones({2}).requires_grad_() * 2 : at::ones({2}).requires_grad_()),
              HasSubstr(on_last()));
  EXPECT_EQ(zero.param_groups().size(), 1);
  EXPECT_THAT(add(is_last() ? parameters[0] : at::ones({3})),
              HasSubstr("parameter 0 of group 1 is in group 0, too"));
  EXPECT_EQ(zero.param_groups().size(), 1);
  if (get_world_size() > 1) {
    EXPECT_THAT(add(at::ones({is_last() ? 2 : 3})), HasSubstr("all ranks must have the same"));
    EXPECT_EQ(zero.param_groups().size(), 1);
  }
  train(zero, parameters, 0, 2);
  torch::optim::Adam plain(plain_parameters, 0.1);
  train(plain, plain_parameters, 0, 2);
  expect_equal(parameters, plain_parameters);
}

TEST_F(ZeroRedundancyErrorsMultirankTest, AFailedUpdateOfOneRankIsAnErrorOfAllRanks) {
  const Tensors parameters = parameters_of({{3}, {4}}),
                plain_parameters = parameters_of({{3}, {4}});
  ZeroAdam zero(parameters, 0.1);
  // Adam rejects the sparse gradient on the rank that updates the parameter.
  set_gradients(parameters, 0);
  parameters[1].mutable_grad() = at::ones({4}).to_sparse();
  const int owner = zero.rank_of(parameters[1]);
  const std::string text = "Adam does not support sparse gradients";
  if (get_rank() == owner) {
    EXPECT_THAT(error_of([&] { zero.step(); }), StartsWith(text));
  } else {
    EXPECT_THAT(error_of<c10::DistError>([&] { zero.step(); }),
                StartsWith("ZeroRedundancyOptimizer: step() of rank " + std::to_string(owner) +
                           " failed: " + text));
  }
  // All ranks still have the same parameters, and the lists of param_groups() are whole.
  for (const at::Tensor& one : parameters) {
    const at::Tensor of_first = one.detach().clone();
    broadcast(of_first, 0);
    EXPECT_TRUE(one.equal(of_first));
  }
  train(zero, parameters, 1, 2);
}

TEST_F(ZeroRedundancyErrorsMultirankTest, AFailedClosureOfOneRankIsAnErrorOfAllRanks) {
  const Tensors parameters = parameters_of({{3}, {4}});
  ZeroAdam zero(parameters, 0.1);
  const auto step = [&] {
    zero.step([&]() -> at::Tensor {
      if (is_last()) throw std::runtime_error("no more data");
      return at::zeros({});
    });
  };
  if (is_last()) {
    EXPECT_THROW(step(), std::runtime_error);
  } else {
    EXPECT_EQ(error_of(step), "ZeroRedundancyOptimizer: step() of rank " +
                                  std::to_string(last_rank()) + " failed: no more data");
  }
}

TEST_F(ZeroRedundancyErrorsMultirankTest, EveryRankKnowsOfAnExceptionOfAnyType) {
  ZeroAdam zero(parameters_of({{3}, {4}}), 0.1);
  const auto step = [&] {
    zero.step([&]() -> at::Tensor {
      if (is_last()) throw 7;
      return at::zeros({});
    });
  };
  if (is_last()) {
    EXPECT_THROW(step(), int);
  } else {
    EXPECT_THAT(error_of(step), HasSubstr("an exception that does not derive from std::exception"));
  }
}

TEST_F(ZeroRedundancyErrorsMultirankTest, RejectsAnOptimizerThatEvaluatesTheClosureTwice) {
  struct Twice : torch::optim::Adam {
    using Adam::Adam;
    at::Tensor step(LossClosure closure) override {
      closure();
      return Adam::step(closure);
    }
  };
  ZeroRedundancyOptimizer<Twice> zero(parameters_of(), 0.1);
  EXPECT_EQ(error_of([&] { zero.step([] { return at::zeros({}); }); }),
            "ZeroRedundancyOptimizer: the optimizer evaluates its closure more than once in a "
            "step, each rank perhaps a different number of times; use the plain optimizer");
}

TEST_F(ZeroRedundancyErrorsMultirankTest, RejectsAListOfParametersThatWasChanged) {
  const Tensors parameters = parameters_of({{3}, {4}});
  ZeroAdam zero(parameters, 0.1);
  zero.param_groups()[0].params().push_back(at::ones({3}).requires_grad_());
  EXPECT_EQ(error_of<c10::ValueError>([&] { zero.step(); }),
            "ZeroRedundancyOptimizer: the parameters of group 0 were changed; add parameters with "
            "add_param_group()");
}

TEST_F(ZeroRedundancyErrorsMultirankTest, KnowsNoRankOfAnotherTensor) {
  const ZeroAdam zero(parameters_of(), 0.1);
  EXPECT_EQ(error_of<c10::ValueError>([&] { zero.rank_of(at::ones({3})); }),
            "ZeroRedundancyOptimizer: rank_of() got a tensor that is not a parameter of this "
            "optimizer");
}

TEST_F(ZeroRedundancyErrorsMultirankTest, EveryRankRejectsAParameterThatIsFrozenOnOneRank) {
  if (get_world_size() == 1) GTEST_SKIP() << "needs a second rank";
  Tensors parameters = parameters_of({{3}, {4}, {5}});
  ZeroAdam optimizer(parameters, 0.1);
  for (at::Tensor& one : parameters) one.mutable_grad() = at::ones_like(one);
  if (is_last()) parameters[0].requires_grad_(false);
  EXPECT_EQ(error_of<c10::ValueError>([&] { optimizer.step(); }),
            "ZeroRedundancyOptimizer::step on rank " + std::to_string(get_rank()) +
                ": ranks would send different parameters; freeze parameters, and change their "
                "dtype, on every rank");
  parameters[0].requires_grad_();
  optimizer.step();  // The group remains usable.
}

// Also on one rank, which sends nothing.
TEST_F(ZeroRedundancyErrorsMultirankTest, AFrozenParameterDoesNotKeepABucket) {
  Tensors parameters = parameters_of({{30}, {40}});
  ZeroAdam optimizer(parameters, 0.1, {.parameters_as_bucket_view = true});
  for (at::Tensor& one : parameters) one.mutable_grad() = at::ones_like(one);
  optimizer.step();
  parameters[0].requires_grad_(false);
  optimizer.step();
  EXPECT_EQ(parameters[0].storage().nbytes(), parameters[0].nbytes());
}

}  // namespace
}  // namespace distrun
