// ZeroRedundancyOptimizer computes what the plain optimizer computes.
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <type_traits>

#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <gmock/gmock.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adamw.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/schedulers/step_lr.h>
#include <torch/optim/sgd.h>

#include "distrun/distributed_data_parallel.h"
#include "distrun/join.h"
#include "parallel/optim/test/zero_redundancy_fixture.h"

namespace distrun {
namespace {

using ::testing::Contains;
using ::testing::Each;

template <class Optimizer, class Defaults>
void expect_training_as_plain(const Defaults& defaults, const Tensors& parameters,
                              const Tensors& plain_parameters,
                              const std::function<void(const Tensors&, int)>& set_gradients,
                              const ZeroRedundancyOptions& options = {}) {
  Optimizer plain(plain_parameters, defaults);
  ZeroRedundancyOptimizer<Optimizer> zero(parameters, defaults, options);
  for (int step = 0; step < 10; ++step) {
    set_gradients(plain_parameters, step);
    set_gradients(parameters, step);
    plain.step();
    zero.step();
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      ASSERT_TRUE(parameters[i].equal(plain_parameters[i])) << "step " << step << ", " << i;
    }
  }
}

TEST_F(ZeroRedundancyMultirankTest, ComputesTheParametersOfThePlainOptimizer) {
  const auto expect_as_plain = [&]<class Optimizer>(std::type_identity<Optimizer>,
                                                    const auto& defaults) {
    for (const bool view : {false, true}) {
      expect_training_as_plain<Optimizer>(defaults, parameters_of(), parameters_of(), set_gradients,
                                          {.parameters_as_bucket_view = view});
    }
  };
  using namespace torch::optim;
  expect_as_plain(std::type_identity<SGD>(), SGDOptions(0.1).momentum(0.9).weight_decay(0.01));
  expect_as_plain(std::type_identity<Adam>(), AdamOptions(0.1).amsgrad(true));
  expect_as_plain(std::type_identity<AdamW>(), AdamWOptions(0.1).weight_decay(0.1));
  expect_as_plain(std::type_identity<RMSprop>(), RMSpropOptions(0.1).momentum(0.5).centered(true));
  expect_as_plain(std::type_identity<Adagrad>(),
                  AdagradOptions(0.1).initial_accumulator_value(0.5));
}

TEST_F(ZeroRedundancyMultirankTest, UpdatesParametersOfSeveralDtypesAndMemoryFormats) {
  const auto mixed = [] {
    Tensors all = parameters_of({{4, 3, 2, 2}, {6}, {3, 3}});
    const Tensors doubles = parameters_of({{5}, {2, 3}}, at::kDouble);
    const Tensors halves = parameters_of({{9}, {4}}, at::kBFloat16);
    all.insert(all.end(), doubles.begin(), doubles.end());
    all.insert(all.end(), halves.begin(), halves.end());
    const at::NoGradGuard no_grad;
    all[0].set_data(all[0].contiguous(at::MemoryFormat::ChannelsLast));
    all[2].set_data(all[2].t());
    return all;
  };
  for (const bool view : {false, true}) {
    const Tensors parameters = mixed();
    expect_training_as_plain<torch::optim::AdamW>(torch::optim::AdamWOptions(0.05), parameters,
                                                  mixed(), set_gradients,
                                                  {.parameters_as_bucket_view = view});
    EXPECT_TRUE(parameters[0].is_contiguous(at::MemoryFormat::ChannelsLast));
  }
}

TEST_F(ZeroRedundancyMultirankTest, EachRankKeepsTheStateOfItsShareOnly) {
  const Tensors parameters = parameters_of();
  ZeroAdam zero(parameters, torch::optim::AdamOptions(0.1));
  train(zero, parameters, 0, 1);
  std::int64_t own = 0, all = 0;
  for (const at::Tensor& one : parameters) {
    all += one.numel();
    const bool is_own = zero.rank_of(one) == get_rank();
    EXPECT_EQ(zero.state().count(one.unsafeGetTensorImpl()) == 1, is_own);
    if (!is_own) continue;
    const auto& state =
        static_cast<const torch::optim::AdamParamState&>(*zero.state()[one.unsafeGetTensorImpl()]);
    EXPECT_EQ(state.exp_avg().numel(), one.numel());
    own += state.exp_avg().numel();
  }
  const at::Tensor sum = at::full({1}, own, at::kLong);
  all_reduce(sum);
  EXPECT_EQ(sum.item<std::int64_t>(), all);
}

TEST_F(ZeroRedundancyMultirankTest, StateThatTheConstructorCreatesIsOfTheShareOnly) {
  const Tensors parameters = parameters_of();
  ZeroRedundancyOptimizer<torch::optim::Adagrad> zero(parameters, torch::optim::AdagradOptions());
  std::size_t own = 0;
  for (const at::Tensor& one : parameters) own += zero.rank_of(one) == get_rank() ? 1 : 0;
  EXPECT_EQ(zero.state().size(), own);
}

TEST_F(ZeroRedundancyMultirankTest, ARankWithoutParametersTakesPart) {
  for (const bool view : {false, true}) {
    expect_training_as_plain<torch::optim::Adam>(0.1, parameters_of({{3}}), parameters_of({{3}}),
                                                 set_gradients,
                                                 {.parameters_as_bucket_view = view});
  }
}

TEST_F(ZeroRedundancyMultirankTest, ParametersWithoutGradientStayAsTheyAre) {
  const auto every_second_gradient = [](const Tensors& parameters, int step) {
    set_gradients(parameters, step);
    for (std::size_t i = static_cast<std::size_t>(step % 2); i < parameters.size(); i += 2) {
      parameters[i].mutable_grad().reset();
    }
  };
  expect_training_as_plain<torch::optim::Adam>(0.1, parameters_of(), parameters_of(),
                                               every_second_gradient);
}

TEST_F(ZeroRedundancyMultirankTest, AFrozenParameterIsNeitherUpdatedNorSent) {
  for (const bool view : {false, true}) {
    const Tensors parameters = parameters_of();
    ZeroAdam zero(parameters, 0.1, {.parameters_as_bucket_view = view});
    train(zero, parameters, 0, 2);
    {
      const at::NoGradGuard no_grad;
      for (const std::size_t i : {2, 6}) parameters[i].requires_grad_(false).fill_(get_rank());
    }
    train(zero, parameters, 2, 4);
    for (const std::size_t i : {2, 6}) {
      EXPECT_TRUE(parameters[i].equal(at::full_like(parameters[i], get_rank()))) << i;
    }
    // From now on, the values of its owner.
    for (const std::size_t i : {2, 6}) {
      parameters[i].requires_grad_();
      parameters[i].mutable_grad().reset();
    }
    zero.zero_grad();
    zero.step();
    for (const std::size_t i : {2, 6}) {
      EXPECT_TRUE(parameters[i].equal(at::full_like(parameters[i], zero.rank_of(parameters[i]))));
    }
  }
}

TEST_F(ZeroRedundancyMultirankTest, AParameterThatIsListedTwiceIsUpdatedOnce) {
  const Tensors parameters = parameters_of({{3}, {4}}), once = parameters_of({{3}, {4}});
  const Tensors twice = {parameters[0], parameters[1], parameters[0]};
  ZeroAdam zero(twice, 0.1);
  torch::optim::Adam plain(once, 0.1);
  train(zero, parameters, 0, 3);
  train(plain, once, 0, 3);
  expect_equal(parameters, once);
  EXPECT_EQ(zero.param_groups()[0].params().size(), 3);
}

TEST_F(ZeroRedundancyMultirankTest, BucketsAreOneTensorForEachRankAndSurviveNewData) {
  const Tensors parameters = parameters_of(), plain_parameters = parameters_of();
  ZeroAdam zero(parameters, 0.1, {.parameters_as_bucket_view = true});
  torch::optim::Adam plain(plain_parameters, 0.1);
  for (const at::Tensor& one : parameters) {
    for (const at::Tensor& other : parameters) {
      EXPECT_EQ(one.storage().is_alias_of(other.storage()),
                zero.rank_of(one) == zero.rank_of(other));
    }
  }
  train(zero, parameters, 0, 2);
  for (const at::Tensor& one : parameters) one.set_data(one.detach().clone());
  train(zero, parameters, 2, 4);
  train(plain, plain_parameters, 0, 4);
  expect_equal(parameters, plain_parameters);
}

TEST_F(ZeroRedundancyMultirankTest, GroupsHaveTheirOptionsAndCanBeAdded) {
  const auto groups_of = [](const Tensors& parameters) {
    std::vector<OptimizerParamGroup> groups;
    groups.emplace_back(Tensors(parameters.begin(), parameters.begin() + 3));
    groups.emplace_back(Tensors(parameters.begin() + 3, parameters.begin() + 5),
                        std::make_unique<torch::optim::AdamOptions>(0.5));
    return groups;
  };
  const Tensors parameters = parameters_of(), plain_parameters = parameters_of();
  ZeroAdam zero(groups_of(parameters), torch::optim::AdamOptions(0.1));
  torch::optim::Adam plain(groups_of(plain_parameters), torch::optim::AdamOptions(0.1));
  const auto add = [](auto& optimizer, const Tensors& all, int first) {
    optimizer.add_param_group(
        OptimizerParamGroup(Tensors(all.begin() + first, all.begin() + first + 1),
                            std::make_unique<torch::optim::AdamOptions>(0.01 * first)));
  };
  std::vector<int> ranks;
  for (int i = 0; i < 5; ++i)
    ranks.push_back(zero.rank_of(parameters[static_cast<std::size_t>(i)]));
  train(zero, parameters, 0, 2);
  add(zero, parameters, 5);
  add(static_cast<torch::optim::Optimizer&>(zero), parameters, 6);
  add(zero, parameters, 7);
  train(zero, parameters, 2, 5);
  train(plain, plain_parameters, 0, 2);
  for (int i = 5; i < 8; ++i) add(plain, plain_parameters, i);
  train(plain, plain_parameters, 2, 5);
  expect_equal(parameters, plain_parameters);
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(zero.rank_of(parameters[static_cast<std::size_t>(i)]),
              ranks[static_cast<std::size_t>(i)]);
  }
}

TEST_F(ZeroRedundancyMultirankTest, FollowsALearningRateScheduler) {
  const Tensors parameters = parameters_of(), plain_parameters = parameters_of();
  ZeroRedundancyOptimizer<torch::optim::SGD> zero(parameters, torch::optim::SGDOptions(0.1));
  torch::optim::SGD plain(plain_parameters, torch::optim::SGDOptions(0.1));
  torch::optim::StepLR schedule(zero, 2, 0.5), plain_schedule(plain, 2, 0.5);
  for (int step = 0; step < 6; ++step) {
    train(zero, parameters, step, step + 1);
    train(plain, plain_parameters, step, step + 1);
    schedule.step();
    plain_schedule.step();
  }
  EXPECT_EQ(zero.param_groups()[0].options().get_lr(), 0.1 / 4);
  expect_equal(parameters, plain_parameters);
}

TEST_F(ZeroRedundancyMultirankTest, TheClosureSeesAllParametersAndRunsOnce) {
  const Tensors parameters = parameters_of(), plain_parameters = parameters_of();
  ZeroAdam zero(parameters, 0.1);
  torch::optim::Adam plain(plain_parameters, 0.1);
  int calls = 0;
  const auto step = [&](torch::optim::Optimizer& optimizer, const Tensors& all) {
    const at::NoGradGuard no_grad;  // The closure computes gradients even so.
    return optimizer.step([&] {
      ++calls;
      optimizer.zero_grad();
      at::Tensor sum = at::zeros({});
      for (const at::Tensor& one : all) sum = sum + one.pow(2).sum();
      sum.backward();
      return sum;
    });
  };
  for (int i = 0; i < 3; ++i) {
    const at::Tensor loss = step(zero, parameters);
    EXPECT_TRUE(loss.equal(step(plain, plain_parameters)));
  }
  EXPECT_EQ(calls, 6);
  expect_equal(parameters, plain_parameters);
  zero.zero_grad();
  for (const at::Tensor& one : parameters) EXPECT_FALSE(one.grad().defined());
}

TEST_F(ZeroRedundancyMultirankTest, WorksInASubgroup) {
  const int last = get_world_size() - 1;
  std::vector<int> all_but_first(static_cast<std::size_t>(last));
  std::iota(all_but_first.begin(), all_but_first.end(), 1);
  if (all_but_first.empty()) all_but_first = {0};
  const Group group = new_group(all_but_first);
  if (!group.is_member()) {
    EXPECT_EQ(error_of([&] { ZeroAdam(parameters_of(), 0.1, {.process_group = group}); }),
              "ZeroRedundancyOptimizer: rank 0 is not in its process_group");
    return;
  }
  expect_training_as_plain<torch::optim::Adam>(0.1, parameters_of(), parameters_of(), set_gradients,
                                               {.process_group = group});
  const Tensors parameters = parameters_of();
  ZeroAdam zero(parameters, 0.1, {.process_group = group});
  EXPECT_EQ(zero.join_process_group(), group);
  EXPECT_EQ(zero.join_device(), c10::Device(at::kCPU));
  std::vector<int> ranks;
  for (const at::Tensor& one : parameters) ranks.push_back(zero.rank_of(one));
  EXPECT_THAT(ranks, Contains(0));
  EXPECT_THAT(ranks, Each(::testing::Lt(get_world_size(group))));
}

TEST_F(ZeroRedundancyMultirankTest, TrainsADistributedDataParallel) {
  const auto train_net = [](bool divide) {
    torch::manual_seed(5);
    const auto net = std::make_shared<torch::nn::LinearImpl>(6, 4);
    DistributedDataParallel ddp(net);
    std::unique_ptr<torch::optim::Optimizer> optimizer;
    if (divide) {
      optimizer = std::make_unique<ZeroAdam>(
          ddp.parameters(), 0.1, ZeroRedundancyOptions{.parameters_as_bucket_view = true});
    } else {
      optimizer = std::make_unique<torch::optim::Adam>(ddp.parameters(), 0.1);
    }
    for (int step = 0; step < 5; ++step) {
      optimizer->zero_grad();
      ddp(at::ones({2, 6}) * (get_rank() + step)).pow(2).sum().backward();
      optimizer->step();
    }
    return net->parameters();
  };
  expect_equal(train_net(true), train_net(false));
}

TEST_F(ZeroRedundancyMultirankTest, AJoinedRankStillUpdatesItsShare) {
  const int ranks = get_world_size();
  const auto inputs_of = [](int rank) { return rank == 0 ? 1 : 2 + rank; };
  const auto input = [](int rank, int step) {
    return at::ones({2, 6}) * (0.3 * rank - 0.2 * step);
  };
  const auto make_net = [] {
    torch::manual_seed(5);
    return std::make_shared<torch::nn::LinearImpl>(6, 4);
  };
  const auto net = make_net(), plain = make_net();
  {
    DistributedDataParallel ddp(net);
    ZeroAdam zero(ddp.parameters(), 0.1);
    Join({ddp, zero}).run([&] {
      for (int step = 0; step < inputs_of(get_rank()); ++step) {
        zero.zero_grad();
        ddp(input(get_rank(), step)).pow(2).sum().backward();
        zero.step();
      }
    });
  }
  torch::optim::Adam optimizer(plain->parameters(), 0.1);
  for (int step = 0; step < inputs_of(ranks - 1); ++step) {
    optimizer.zero_grad();
    for (int rank = 0; rank < ranks; ++rank) {
      if (step >= inputs_of(rank)) continue;
      (plain->forward(input(rank, step)).pow(2).sum() / ranks).backward();
    }
    optimizer.step();
  }
  for (std::size_t i = 0; i < plain->parameters().size(); ++i) {
    EXPECT_TRUE(net->parameters()[i].allclose(plain->parameters()[i], 1e-4, 1e-5))
        << net->parameters()[i] << plain->parameters()[i];
  }
}

}  // namespace
}  // namespace distrun
