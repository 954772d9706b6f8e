#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <torch/optim/schedulers/step_lr.h>
#include <torch/optim/sgd.h>
#include <torch/serialize.h>

#include "backends/test/multirank_test.h"
#include "distrun/distributed_data_parallel.h"
#include "distrun/model_averager.h"
#include "distrun/post_local_sgd_hook.h"
#include "distrun/post_local_sgd_optimizer.h"
#include "parallel/ddp/test/ddp_multirank_fixture.h"

namespace distrun {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

class AveragingMultirankTest : public DdpMultirankTest {
 protected:
  // A parameter whose elements are `value` + the rank, with a gradient of ones.
  static at::Tensor param(double value, at::ScalarType dtype = at::kFloat) {
    at::Tensor tensor = at::full({2, 3}, value + get_rank(), dtype).requires_grad_();
    tensor.mutable_grad() = at::ones({2, 3}, dtype);
    return tensor;
  }
  static double mean_of_ranks() { return (get_world_size() - 1) / 2.0; }

  // The steps in which the averager changes a parameter that differs between ranks.
  static std::vector<int> steps_that_average(ModelAverager& averager, int steps) {
    std::vector<int> found;
    for (int step = 0; step < steps; ++step) {
      EXPECT_EQ(averager.step(), step);
      const bool due = averager.find_process_group().has_value();
      const at::Tensor one = param(1);
      averager.average_parameters(Tensors{one});
      const bool averaged = one[0][0].item<double>() == 1 + mean_of_ranks();
      if (due) found.push_back(step);
      if (mean_of_ranks() != get_rank()) {
        EXPECT_EQ(averaged, due) << step;
      }
    }
    return found;
  }

  static std::string warning_of(const std::function<void()>& act) {
    struct Handler : c10::WarningHandler {
      std::string text;
      void process(const c10::Warning& warning) override { text += warning.msg(); }
    } handler;
    const c10::WarningUtils::WarningHandlerGuard guard(&handler);
    act();
    return handler.text;
  }
};

TEST_F(AveragingMultirankTest, AveragesParametersOfSeveralSizesAndDtypes) {
  const Tensors params = {param(1), param(10, at::kDouble), param(5),
                          at::full({4, 2}, 1.0 * get_rank()).t().requires_grad_()};
  const void* memory = params[0].data_ptr();
  average_parameters(params);
  EXPECT_TRUE(params[0].equal(at::full({2, 3}, 1 + mean_of_ranks())));
  EXPECT_TRUE(params[1].equal(at::full({2, 3}, 10 + mean_of_ranks(), at::kDouble)));
  EXPECT_TRUE(params[2].equal(at::full({2, 3}, 5 + mean_of_ranks())));
  EXPECT_TRUE(params[3].equal(at::full({2, 4}, mean_of_ranks())));
  EXPECT_EQ(params[0].data_ptr(), memory);
  EXPECT_TRUE(params[0].requires_grad() && params[0].is_leaf());
}

TEST_F(AveragingMultirankTest, KeepsTheOrderOfElements) {
  const at::Tensor params = (at::arange(6, at::kFloat).view({2, 3}) * (get_rank() + 1));
  average_parameters({params.t()});
  const at::Tensor expected =
      at::arange(6, at::kFloat).view({2, 3}) * ((get_world_size() + 1) / 2.0);
  EXPECT_TRUE(params.allclose(expected)) << params;
}

TEST_F(AveragingMultirankTest, RejectsParametersWithoutAMean) {
  const at::Tensor one = param(1);
  const auto error = [&](const at::Tensor& other) {
    return MultirankTest::error_of<c10::TypeError>([&] { average_parameters({one, other}); });
  };
  EXPECT_THAT(error(at::zeros({2}, at::kLong)),
              StartsWith("average_parameters: parameter 1 has dtype Long; expected a floating "
                         "point or complex dtype"));
  EXPECT_THAT(error({}), StartsWith("average_parameters: parameter 1 is undefined"));
  EXPECT_TRUE(one.equal(at::full({2, 3}, 1.0 + get_rank())));
}

TEST_F(AveragingMultirankTest, AveragesInASubGroup) {
  const Group first = new_group({0});
  const at::Tensor one = param(1);
  average_parameters({one}, first);  // Does nothing on other ranks.
  EXPECT_TRUE(one.equal(at::full({2, 3}, 1.0 + get_rank())));
  const Group alone = new_subgroups(1).own.value();
  PeriodicModelAverager averager({.period = 2, .process_group = alone});
  averager.average_parameters(Tensors{one});
  EXPECT_TRUE(one.equal(at::full({2, 3}, 1.0 + get_rank())));
}

TEST_F(AveragingMultirankTest, SelectsParametersWithAGradient) {
  const Tensors params = {param(1), at::full({2}, 1.0 * get_rank()).requires_grad_(), param(2)};
  EXPECT_EQ(get_params_to_average(params).size(), 2U);
  EXPECT_TRUE(get_params_to_average(params)[1].is_same(params[2]));
  const torch::optim::SGD sgd({torch::optim::OptimizerParamGroup({params[1], params[2]}),
                               torch::optim::OptimizerParamGroup({params[0]})},
                              torch::optim::SGDOptions(0.1));
  EXPECT_TRUE(get_params_to_average(sgd.param_groups()).at(0).is_same(params[2]));
  EXPECT_TRUE(get_params_to_average(sgd.param_groups()).at(1).is_same(params[0]));
  average_parameters_or_parameter_groups(sgd.param_groups());
  average_parameters_or_parameter_groups(params);
  EXPECT_TRUE(params[0].equal(at::full({2, 3}, 1 + mean_of_ranks())));
  EXPECT_TRUE(params[1].equal(at::full({2}, 1.0 * get_rank())));
  average_parameters_or_parameter_groups({params[1]});  // None has a gradient.
}

TEST_F(AveragingMultirankTest, PeriodicAveragerAveragesAfterTheWarmup) {
  PeriodicModelAverager averager({.period = 3, .warmup_steps = 2});
  EXPECT_THAT(steps_that_average(averager, 10), ElementsAre(2, 5, 8));
  PeriodicModelAverager without_warmup({.period = 4});
  EXPECT_THAT(steps_that_average(without_warmup, 6), ElementsAre(0, 4));
  without_warmup.set_step(8);
  EXPECT_TRUE(without_warmup.find_process_group());
}

TEST_F(AveragingMultirankTest, HierarchicalAveragerUsesTheLongestPeriod) {
  const int ranks = get_world_size();
  HierarchicalModelAverager averager(
      {.period_group_size = {{2, 1}, {6, ranks}}, .warmup_steps = 1});
  std::vector<std::pair<int, int>> found;
  for (int step = 0; step < 13; ++step) {
    const at::Tensor one = param(1);
    const auto group = averager.find_process_group();
    averager.average_parameters(Tensors{one});
    if (group) found.emplace_back(step, get_world_size(*group));
    const bool by_all = step == 6 || step == 12;
    EXPECT_EQ(one[0][0].item<double>(), 1 + (by_all ? mean_of_ranks() : get_rank())) << step;
  }
  const auto in = [](int step, int size) { return std::pair(step, size); };
  EXPECT_THAT(found,
              ElementsAre(in(2, 1), in(4, 1), in(6, ranks), in(8, 1), in(10, 1), in(12, ranks)));
}

TEST_F(AveragingMultirankTest, HierarchicalAveragerOfASubGroupLeavesOtherRanksAlone) {
  const Group first = new_group({0});
  HierarchicalModelAverager averager({.period_group_size = {{1, 1}}, .process_group = first});
  const at::Tensor one = param(1);
  averager.average_parameters(Tensors{one});
  EXPECT_TRUE(one.equal(at::full({2, 3}, 1.0 + get_rank())));
}

TEST_F(AveragingMultirankTest, RejectsInvalidOptions) {
  EXPECT_THAT(error_of([] { PeriodicModelAverager({.period = 0}); }),
              StartsWith("PeriodicModelAverager: period is 0; expected 1 or more"));
  EXPECT_THAT(error_of([] { PeriodicModelAverager({.period = 2, .warmup_steps = -1}); }),
              StartsWith("PeriodicModelAverager: warmup_steps is -1; expected 0 or more"));
  const auto hierarchical = [](std::vector<std::pair<std::int64_t, int>> sizes, int warmup = 0) {
    return error_of([&] {
      HierarchicalModelAverager({.period_group_size = std::move(sizes), .warmup_steps = warmup});
    });
  };
  const int ranks = get_world_size();
  EXPECT_THAT(hierarchical({{2, ranks}}, -1),
              StartsWith("HierarchicalModelAverager: warmup_steps is -1; expected 0 or more"));
  EXPECT_THAT(hierarchical({}),
              StartsWith("HierarchicalModelAverager: period_group_size is empty; expected pairs of "
                         "a period and a number of ranks"));
  EXPECT_THAT(hierarchical({{0, ranks}}),
              StartsWith("HierarchicalModelAverager: the period 0 follows 0; expected periods that "
                         "are positive and increase"));
  EXPECT_THAT(hierarchical({{4, 1}, {4, ranks}}), HasSubstr("the period 4 follows 4"));
  EXPECT_THAT(hierarchical({{2, ranks + 1}}),
              StartsWith("HierarchicalModelAverager: the last number of ranks in "
                         "period_group_size is " +
                         std::to_string(ranks + 1) + "; expected " + std::to_string(ranks) +
                         ", the number of ranks in process_group"));
  const auto sgd = std::make_shared<torch::optim::SGD>(Tensors{param(1)}, 0.1);
  const auto averager =
      std::make_shared<PeriodicModelAverager>(PeriodicModelAveragerOptions{.period = 2});
  EXPECT_THAT(error_of([&] { PostLocalSGDOptimizer(nullptr, averager); }),
              StartsWith("PostLocalSGDOptimizer: the optimizer is null"));
  EXPECT_THAT(error_of([&] { PostLocalSGDOptimizer(sgd, nullptr); }),
              StartsWith("PostLocalSGDOptimizer: the averager is null"));
}

TEST_F(AveragingMultirankTest, WarnsOfAPeriodOfOne) {
  EXPECT_THAT(warning_of([] { PeriodicModelAverager({.period = 1}); }),
              StartsWith("PeriodicModelAverager: with a period of 1, averaging sends as much as "
                         "DistributedDataParallel does without a hook; use "
                         "DistributedDataParallel alone, or a greater period"));
  EXPECT_THAT(warning_of([] {
                HierarchicalModelAverager({.period_group_size = {{1, get_world_size()}}});
              }),
              StartsWith("HierarchicalModelAverager: with a period of 1"));
  EXPECT_THAT(warning_of([] { PeriodicModelAverager({.period = 2}); }), IsEmpty());
}

TEST_F(AveragingMultirankTest, OptimizerStepsAndThenAverages) {
  const at::Tensor one = param(1);
  const auto sgd = std::make_shared<torch::optim::SGD>(Tensors{one}, 0.5);
  const auto averager = std::make_shared<PeriodicModelAverager>(
      PeriodicModelAveragerOptions{.period = 2, .warmup_steps = 1});
  PostLocalSGDOptimizer optimizer(sgd, averager);
  EXPECT_EQ(optimizer.step([] { return at::full({}, 7); }).item<int>(), 7);
  EXPECT_TRUE(one.equal(at::full({2, 3}, 0.5 + get_rank())));
  optimizer.step();
  EXPECT_TRUE(one.equal(at::full({2, 3}, 0 + mean_of_ranks())));
  optimizer.zero_grad();
  EXPECT_FALSE(one.grad().defined());
  optimizer.add_param_group(torch::optim::OptimizerParamGroup({param(2)}));
  EXPECT_EQ(optimizer.param_groups().size(), 2U);
  EXPECT_EQ(sgd->param_groups().size(), 2U);
  torch::optim::StepLR scheduler(*optimizer.optim(), /*step_size=*/1);
  for (int step = 0; step < 2; ++step) scheduler.step();
  EXPECT_NEAR(optimizer.param_groups()[0].options().get_lr(), 0.05, 1e-9);
}

TEST_F(AveragingMultirankTest, OptimizerSavesTheStepOfTheAverager) {
  const auto make = [](const at::Tensor& tensor) {
    return PostLocalSGDOptimizer(
        std::make_shared<torch::optim::SGD>(Tensors{tensor},
                                            torch::optim::SGDOptions(0.5).momentum(0.9)),
        std::make_shared<PeriodicModelAverager>(PeriodicModelAveragerOptions{.period = 3}));
  };
  const at::Tensor one = param(1), other = param(1);
  PostLocalSGDOptimizer saved = make(one);
  for (int step = 0; step < 2; ++step) saved.step();
  std::stringstream file;
  torch::save(saved, file);
  PostLocalSGDOptimizer loaded = make(other);
  torch::load(loaded, file);
  EXPECT_EQ(loaded.averager()->step(), 2);
  {
    const at::NoGradGuard no_grad;
    other.copy_(one);
  }
  for (int step = 0; step < 3; ++step) {
    saved.step();
    loaded.step();
    EXPECT_TRUE(one.equal(other)) << step;
  }

  std::stringstream file_of_sgd;
  torch::save(*saved.optim(), file_of_sgd);
  EXPECT_THAT(warning_of([&] { torch::load(loaded, file_of_sgd); }),
              StartsWith("PostLocalSGDOptimizer: the archive has no step of the averager, which "
                         "starts at 0"));
  EXPECT_EQ(loaded.averager()->step(), 0);
}

TEST_F(AveragingMultirankTest, ALoadOfAWrongStepChangesNothing) {
  const at::Tensor one = param(1);
  PostLocalSGDOptimizer optimizer(
      std::make_shared<torch::optim::SGD>(Tensors{one},
                                          torch::optim::SGDOptions(0.5).momentum(0.9)),
      std::make_shared<PeriodicModelAverager>(PeriodicModelAveragerOptions{.period = 3}));
  for (const c10::IValue& wrong : {c10::IValue(-1), c10::IValue("two")}) {
    torch::serialize::OutputArchive archive;
    optimizer.optim()->save(archive);  // Before its first step, in the first round.
    archive.write("step", wrong);
    std::stringstream file;
    archive.save_to(file);
    optimizer.step();
    const auto steps = optimizer.averager()->step();
    const auto states = optimizer.optim()->state().size();
    EXPECT_THAT(error_of([&] { torch::load(optimizer, file); }),
                StartsWith("PostLocalSGDOptimizer: the archive is damaged: 'step' is not what a "
                           "PostLocalSGDOptimizer saves; load another one"));
    EXPECT_EQ(optimizer.averager()->step(), steps);
    EXPECT_EQ(optimizer.optim()->state().size(), states);
  }
}

TEST_F(AveragingMultirankTest, TrainsWithPostLocalSgd) {
  const Group alone = new_subgroups(1).own.value();
  DistributedDataParallel ddp(TwoLayers(), {.gradient_as_bucket_view = true});
  ddp.register_comm_hook(PostLocalSGDState({.subgroup = alone, .start_localSGD_iter = 2}),
                         post_localSGD_hook);
  PostLocalSGDOptimizer optimizer(
      std::make_shared<torch::optim::SGD>(ddp.parameters(), 0.001),
      std::make_shared<PeriodicModelAverager>(
          PeriodicModelAveragerOptions{.period = 3, .warmup_steps = 2}));
  for (int step = 0; step < 9; ++step) {
    ddp.zero_grad();
    loss(ddp(data())).backward();
    optimizer.step();
    const at::Tensor mine = ddp.parameters()[0].detach().clone();
    const at::Tensor of_first = mine.clone();
    broadcast(of_first, 0);
    const bool same = step < 3 || (step - 2) % 3 == 0;
    const bool differs = get_rank() != 0 && !same;
    EXPECT_EQ(!mine.equal(of_first), differs) << step;
  }
}

}  // namespace
}  // namespace distrun
