// Saves and loads the state of ZeroRedundancyOptimizer.
#include <memory>
#include <numeric>
#include <string>

#include <gmock/gmock.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/sgd.h>

#include "parallel/optim/test/zero_redundancy_fixture.h"

namespace distrun {
namespace {

using ::testing::HasSubstr;

class ZeroRedundancyStateMultirankTest : public ZeroRedundancyMultirankTest {
 protected:
  // The state of all shares after `steps` steps, in the file of the plain optimizer, on all ranks.
  template <class Zero, class Defaults>
  static std::string consolidated_after(const Defaults& defaults, const Tensors& parameters,
                                        int steps) {
    Zero zero(parameters, defaults);
    train(zero, parameters, 0, steps);
    const int last = get_world_size() - 1;
    const auto whole = zero.consolidate_state_dict(last);
    EXPECT_EQ(whole != nullptr, get_rank() == last);
    return broadcast_bytes(whole ? saved(*whole) : "", last);
  }
  template <class Optimizer, class Defaults>
  static void expect_plain_continues(const Defaults& defaults) {
    const Tensors parameters = parameters_of(), plain_parameters = parameters_of();
    Optimizer plain(plain_parameters, defaults);
    train(plain, plain_parameters, 0, 6);
    const std::string file =
        consolidated_after<ZeroRedundancyOptimizer<Optimizer>>(defaults, parameters, 3);
    Optimizer continued(parameters, Defaults(123.0));
    load(continued, file);
    train(continued, parameters, 3, 6);
    expect_equal(parameters, plain_parameters);
  }
};

TEST_F(ZeroRedundancyStateMultirankTest, ThePlainOptimizerLoadsTheConsolidatedState) {
  using namespace torch::optim;
  expect_plain_continues<Adam>(AdamOptions(0.1).amsgrad(true));
  expect_plain_continues<SGD>(SGDOptions(0.1).momentum(0.9));
  expect_plain_continues<Adagrad>(AdagradOptions(0.1));
}

TEST_F(ZeroRedundancyStateMultirankTest, LoadsTheFileOfThePlainOptimizer) {
  const Tensors parameters = parameters_of(), plain_parameters = parameters_of();
  torch::optim::Adam plain(plain_parameters, 0.1), before(parameters, 0.1);
  train(plain, plain_parameters, 0, 6);
  train(before, parameters, 0, 3);
  ZeroAdam zero(parameters, 0.7);
  load(zero, saved(before));
  for (const at::Tensor& one : parameters) {
    EXPECT_EQ(zero.state().count(one.unsafeGetTensorImpl()) == 1, zero.rank_of(one) == get_rank());
  }
  EXPECT_EQ(zero.param_groups()[0].options().get_lr(), 0.1);
  train(zero, parameters, 3, 6);
  expect_equal(parameters, plain_parameters);
}

TEST_F(ZeroRedundancyStateMultirankTest, LoadsTheConsolidatedStateOnAnotherNumberOfRanks) {
  const Tensors parameters = parameters_of(), plain_parameters = parameters_of();
  torch::optim::Adam plain(plain_parameters, 0.1);
  train(plain, plain_parameters, 0, 6);
  const std::string file = consolidated_after<ZeroAdam>(0.1, parameters, 3);
  std::vector<int> fewer(static_cast<std::size_t>(std::max(1, get_world_size() - 1)));
  std::iota(fewer.begin(), fewer.end(), 0);
  const Group group = new_group(fewer);
  if (!group.is_member()) return;
  ZeroAdam zero(parameters, 0.7, {.process_group = group});
  load(zero, file);
  train(zero, parameters, 3, 6);
  expect_equal(parameters, plain_parameters);
  // And back to the plain file.
  const auto whole = zero.consolidate_state_dict();
  ASSERT_EQ(whole != nullptr, get_rank() == 0);
  if (whole) {
    EXPECT_EQ(whole->state().size(), plain.state().size());
  }
}

TEST_F(ZeroRedundancyStateMultirankTest, EachRankSavesAndLoadsItsShare) {
  const Tensors parameters = parameters_of(), plain_parameters = parameters_of();
  torch::optim::Adam plain(plain_parameters, 0.1);
  train(plain, plain_parameters, 0, 6);
  ZeroAdam before(parameters, 0.1);
  train(before, parameters, 0, 3);
  const std::string file = saved(before);
  ZeroAdam after(parameters, 0.7);
  load(after, file);
  train(after, parameters, 3, 6);
  expect_equal(parameters, plain_parameters);
  EXPECT_EQ(after.param_groups()[0].options().get_lr(), 0.1);
}

TEST_F(ZeroRedundancyStateMultirankTest, AShareIsSmallerThanTheWholeState) {
  const Tensors parameters = parameters_of({{50, 50}, {50, 50}, {50, 50}, {50, 50}});
  ZeroAdam zero(parameters, 0.1);
  train(zero, parameters, 0, 1);
  const auto whole = zero.consolidate_state_dict(GroupRank(0));
  if (!whole) return;
  const double shares = get_world_size() == 3 ? 2.0 : 4.0 / get_world_size();
  EXPECT_NEAR(static_cast<double>(saved(zero).size()),
              static_cast<double>(saved(*whole).size()) * shares / 4, 6000);
}

TEST_F(ZeroRedundancyStateMultirankTest, RejectsTheShareOfAnotherRank) {
  if (get_world_size() == 1) GTEST_SKIP() << "one rank has the only share";
  const Tensors parameters = parameters_of();
  ZeroAdam zero(parameters, 0.1);
  train(zero, parameters, 0, 1);
  const std::string of_first = broadcast_bytes(saved(zero), 0);
  const std::string ranks = std::to_string(get_world_size());
  if (get_rank() == 0) {
    load(zero, of_first);
  } else {
    const std::string own = std::to_string(get_rank());
    EXPECT_EQ(error_of([&] { load(zero, of_first); }),
              "ZeroRedundancyOptimizer: the archive has the share of group rank 0 of " + ranks +
                  " ranks, and this is group rank " + own + " of " + ranks +
                  "; to load on other ranks, save consolidate_state_dict()");
  }
  torch::optim::Adam plain(parameters, 0.1);
  EXPECT_NE(error_of([&] { load(plain, of_first); }), "no error");
}

TEST_F(ZeroRedundancyStateMultirankTest, RejectsTheShareOfAnotherNumberOfRanks) {
  if (get_world_size() < 3) GTEST_SKIP() << "one rank alone has no share";
  const Tensors parameters = parameters_of();
  ZeroAdam zero(parameters, 0.1);
  const Group group = new_group({0, 1});
  std::string file;
  if (group.is_member()) {
    const ZeroAdam of_two(parameters, 0.1, {.process_group = group});
    file = saved(of_two);
  }
  file = broadcast_bytes(file, 0);
  EXPECT_THAT(error_of([&] { load(zero, file); }),
              HasSubstr("the archive has the share of group rank 0 of 2 ranks, and this is group "
                        "rank " +
                        std::to_string(get_rank()) + " of " + std::to_string(get_world_size())));
}

// Options that differ among ranks are an error of the program, but the result is that of one rank.
TEST_F(ZeroRedundancyStateMultirankTest, TheConsolidatedStateHasTheOptionsOfItsRank) {
  ZeroAdam zero(parameters_of(), 0.1);
  zero.param_groups()[0].options().set_lr(get_rank() + 1);
  const auto whole = zero.consolidate_state_dict(GroupRank(0));
  if (whole) {
    EXPECT_EQ(whole->param_groups()[0].options().get_lr(), 1);
  }
}

// The second group differs, so the state of the first one is loaded already.
TEST_F(ZeroRedundancyStateMultirankTest, AFailedLoadLeavesNoStateOfOtherShares) {
  const Tensors parameters = parameters_of(), more = parameters_of();
  torch::optim::Adam other({torch::optim::OptimizerParamGroup(parameters),
                            torch::optim::OptimizerParamGroup(Tensors{more[0]})},
                           0.1);
  train(other, parameters, 0, 1);
  ZeroAdam zero(
      {torch::optim::OptimizerParamGroup(parameters), torch::optim::OptimizerParamGroup(more)},
      0.1);
  EXPECT_THAT(error_of([&] { load(zero, saved(other)); }),
              HasSubstr("contains a parameter group that has a different size"));
  std::size_t own = 0;
  for (const at::Tensor& one : parameters) {
    const bool has_state = zero.state().count(one.unsafeGetTensorImpl()) == 1;
    EXPECT_EQ(has_state, zero.rank_of(one) == get_rank());
    own += has_state ? 1 : 0;
  }
  EXPECT_EQ(zero.state().size(), own);
}

TEST_F(ZeroRedundancyStateMultirankTest, RejectsAFileWithOtherGroups) {
  const Tensors parameters = parameters_of();
  torch::optim::Adam other(Tensors{parameters[0]}, 0.1);
  ZeroAdam zero(parameters, 0.1);
  EXPECT_THAT(error_of([&] { load(zero, saved(other)); }),
              HasSubstr("contains a parameter group that has a different size"));
  train(zero, parameters, 0, 1);
}

}  // namespace
}  // namespace distrun
