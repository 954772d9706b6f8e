// Gradients of DistributedDataParallel, on every rank of a run.
//
//     distrun launch --nproc-per-node 2 build/tests/parallel_multirank_test
//         --gtest_filter='Ddp*MultirankTest.*'
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/modules/linear.h>

#include "backends/shm/test/mapped_files.h"
#include "parallel/ddp/test/ddp_multirank_fixture.h"

namespace distrun {
namespace {

using ::testing::HasSubstr;

class DdpGradientsMultirankTest : public DdpMultirankTest {
 protected:
  static void expect_mean_gradients(const DdpOptions& options) {
    DistributedDataParallel ddp(TwoLayers(), options);
    for (int iteration = 0; iteration < 3; ++iteration) {
      SCOPED_TRACE(iteration);
      ddp.zero_grad(/*set_to_none=*/!options.gradient_as_bucket_view);
      const Tensors expected = mean_gradients(*ddp.module());
      loss(ddp(data())).backward();
      expect_gradients(*ddp.module(), expected);
      const at::NoGradGuard no_grad;
      for (at::Tensor& one : ddp.parameters()) one.sub_(one.grad(), 0.01);
    }
  }
};

TEST_F(DdpGradientsMultirankTest, ReducesToTheMeanOfAllRanks) { expect_mean_gradients({}); }
TEST_F(DdpGradientsMultirankTest, ReducesABucketForEachParameter) {
  expect_mean_gradients({.bucket_cap_mb = 0});
}
TEST_F(DdpGradientsMultirankTest, ReducesBucketsThatAreNotRebuilt) {
  expect_mean_gradients({.bucket_cap_mb = 0.0001, .find_unused_parameters = true});
}
TEST_F(DdpGradientsMultirankTest, ReducesViewsOfBuckets) {
  expect_mean_gradients({.gradient_as_bucket_view = true});
}
// Buckets of more than 1 MiB are reduced in place.
TEST_F(DdpGradientsMultirankTest, BucketsOfShmAreInMemoryThatTheRanksShare) {
  const Group group = new_group(std::nullopt, {.backend = "shm"});
  for (const bool view : {false, true}) {
    torch::nn::Linear plain(600, 600);
    DistributedDataParallel ddp(plain, {.process_group = group, .gradient_as_bucket_view = view});
    for (int step = 0; step < 3; ++step) {
      torch::manual_seed(static_cast<std::uint64_t>(10 * step + get_rank()));
      const at::Tensor x = at::randn({4, 600});
      const Tensors mean = torch::autograd::grad({plain(x).square().sum()}, plain->parameters());
      for (const at::Tensor& one : mean) all_reduce(one.div_(get_world_size()));
      ddp(x).square().sum().backward();
      for (std::size_t i = 0; i < mean.size(); ++i) {
        const at::Tensor gradient = plain->parameters()[i].grad();
        EXPECT_TRUE(gradient.allclose(mean[i], 1e-4, 1e-4));
        EXPECT_EQ(
            shm::test::mapped_file(gradient.const_data_ptr()) == "/memfd:distrun shm (deleted)",
            view);
      }
      ddp.zero_grad();
    }
  }
}

TEST_F(DdpGradientsMultirankTest, ReducesAfterASearchForUnusedParameters) {
  expect_mean_gradients({.find_unused_parameters = true});
}
TEST_F(DdpGradientsMultirankTest, ReducesAStaticGraph) {
  expect_mean_gradients({.static_graph = true});
}
TEST_F(DdpGradientsMultirankTest, ReducesAStaticGraphWithViews) {
  expect_mean_gradients({.gradient_as_bucket_view = true, .static_graph = true});
}

TEST_F(DdpGradientsMultirankTest, ReducesWithinItsGroupOnly) {
  const Group first = new_group({{0}});
  if (get_rank() != 0) {
    EXPECT_EQ(error_of([&] { DistributedDataParallel(TwoLayers(), {.process_group = first}); }),
              "DistributedDataParallel: rank " + std::to_string(get_rank()) +
                  " is not in its process_group");
    return;
  }
  DistributedDataParallel ddp(TwoLayers(), {.process_group = first});
  loss(ddp(data())).backward();
  const at::Tensor got = ddp.parameters()[0].grad().clone();
  ddp.module()->zero_grad();
  loss(ddp.module()->forward(data())).backward();
  EXPECT_TRUE(got.allclose(ddp.parameters()[0].grad()));
}

TEST_F(DdpGradientsMultirankTest, AccumulatesLocallyWhileANoSyncGuardLives) {
  DistributedDataParallel ddp{TwoLayers()};
  Tensors expected = mean_gradients(*ddp.module());
  auto outer = std::unique_ptr<DdpReducer::NoSync>(new DdpReducer::NoSync(ddp.no_sync()));
  { const auto inner = ddp.no_sync(); }
  {
    const auto other = ddp.no_sync();
    loss(ddp(data())).backward();
    outer.reset();
    ddp.module()->zero_grad();
    loss(ddp(data())).backward();  // Still local.
  }
  const at::Tensor own = ddp.parameters()[0].grad().clone();
  loss(ddp(data())).backward();
  for (at::Tensor& one : expected) one = one * 2;
  expect_gradients(*ddp.module(), expected);
  EXPECT_EQ(own.allclose(expected[0] / 2), get_world_size() == 1);
}

// As DdpReducer::before_forward() documents.
TEST_F(DdpGradientsMultirankTest, ASecondBackwardOfAForwardAddsGradientsOfThisRankOnly) {
  DistributedDataParallel ddp{TwoLayers()};
  Tensors expected = mean_gradients(*ddp.module());
  loss(ddp.module()->forward(data())).backward();
  for (std::size_t i = 0; i < expected.size(); ++i) {
    expected[i] = expected[i] + ddp.parameters()[i].grad();
  }
  ddp.zero_grad();
  const at::Tensor graph = loss(ddp(data()));
  graph.backward({}, /*retain_graph=*/true);
  graph.backward();
  expect_gradients(*ddp.module(), expected);
}

TEST_F(DdpGradientsMultirankTest, LeavesParametersThatNoRankUsesWithoutGradient) {
  const int ranks = get_world_size();
  for (const bool skip : {false, true}) {
    DistributedDataParallel ddp(
        std::make_shared<PartsImpl>(ranks),
        {.find_unused_parameters = true, .skip_all_reduce_unused_params = skip});
    for (int iteration = 1; iteration <= 2; ++iteration) {
      ddp(get_rank()).backward();
      for (int i = 0; i < ranks; ++i) {
        const at::Tensor gradient = ddp.parameters()[static_cast<std::size_t>(i)].grad();
        ASSERT_TRUE(gradient.defined()) << i;
        EXPECT_TRUE(gradient.allclose(at::ones({2}) * iteration / ranks)) << gradient;
      }
      EXPECT_FALSE(ddp.parameters().back().grad().defined());
    }
  }
}

TEST_F(DdpGradientsMultirankTest, SkipsCollectivesOfParametersThatNoRankUses) {
  const auto collectives = [](bool skip) {
    DistributedDataParallel ddp(std::make_shared<PartsImpl>(get_world_size()),
                                {.bucket_cap_mb = 0,
                                 .find_unused_parameters = true,
                                 .skip_all_reduce_unused_params = skip});
    const auto before = get_sequence_number();
    ddp(get_rank()).backward();
    return get_sequence_number() - before;
  };
  EXPECT_GT(collectives(false), collectives(true)) << "no rank uses one part";
}

TEST_F(DdpGradientsMultirankTest, LeavesParametersOfUnusedOutputsWithoutGradient) {
  struct Both : PartsImpl {
    using PartsImpl::PartsImpl;
    std::pair<at::Tensor, at::Tensor> forward() { return {parts[0].sum(), parts[1].sum()}; }
  };
  DistributedDataParallel ddp(std::make_shared<Both>(1), {.find_unused_parameters = true});
  ddp().first.backward();
  EXPECT_TRUE(ddp.module()->parts[0].grad().defined());
  EXPECT_FALSE(ddp.module()->parts[1].grad().defined());
}

TEST_F(DdpGradientsMultirankTest, NamesTheParameterWithoutAGradient) {
  DistributedDataParallel ddp(std::make_shared<PartsImpl>(get_world_size()));
  ddp(0).backward();
  const std::string text = error_of([&] { ddp(0); });
  EXPECT_THAT(text, ::testing::ContainsRegex(
                        "^DistributedDataParallel on rank " + std::to_string(get_rank()) +
                        ": the last backward\\(\\) computed no gradient of (part[0-9], )*part1"));
  EXPECT_THAT(text, HasSubstr("set DdpOptions::find_unused_parameters"));
  EXPECT_THAT(ddp.get_ddp_logging_data().strs_map.at("error"), HasSubstr("part1"));
}

TEST_F(DdpGradientsMultirankTest, SaysThatTheLastBackwardThrew) {
  DistributedDataParallel ddp{TwoLayers()};
  const at::Tensor input = data().requires_grad_();
  // Gets a gradient after all parameters.
  input.register_hook(
      [](const at::Tensor&) -> at::Tensor { TORCH_CHECK_VALUE(false, "a hook's error"); });
  EXPECT_THAT(error_of([&] { loss(ddp(input * 2)).backward(); }), HasSubstr("a hook's error"));
  EXPECT_EQ(error_of([&] { ddp(data()); }),
            "DistributedDataParallel on rank " + std::to_string(get_rank()) +
                ": the last backward() threw, so it did not average the gradients; construct a new "
                "DistributedDataParallel");
}

TEST_F(DdpGradientsMultirankTest, AStaticGraphCannotBeginWithoutReduction) {
  DistributedDataParallel ddp(TwoLayers(), {.static_graph = true});
  const auto alone = ddp.no_sync();
  EXPECT_THAT(error_of([&] { loss(ddp(data())).backward(); }),
              HasSubstr("expect_autograd_hooks_ INTERNAL ASSERT FAILED"));
}

TEST_F(DdpGradientsMultirankTest, ReducesAParameterThatIsUsedTwiceOnlyOnce) {
  struct Tied : torch::nn::Module {
    at::Tensor weight = register_parameter("weight", at::ones({2}));
    at::Tensor same = register_parameter("same", weight);
    at::Tensor forward() { return (weight * 2 + same).sum(); }
  };
  for (const bool static_graph : {false, true}) {
    DistributedDataParallel ddp(std::make_shared<Tied>(), {.static_graph = static_graph});
    ddp().backward();
    EXPECT_TRUE(ddp.module()->weight.grad().equal(at::full({2}, 3.0)));
  }
}

TEST_F(DdpGradientsMultirankTest, ReducesSeveralDtypes) {
  struct Mixed : torch::nn::Module {
    at::Tensor single = register_parameter("single", at::ones({3}));
    at::Tensor twice = register_parameter("twice", at::ones({3}, at::kDouble));
    at::Tensor half = register_parameter("half", at::ones({3}, at::kHalf));
    at::Tensor complex = register_parameter("complex", at::ones({3}, at::kComplexFloat));
    at::Tensor forward(int x) { return x * (single + twice + half + at::abs(complex)).sum(); }
  };
  DistributedDataParallel ddp(std::make_shared<Mixed>());
  ddp(get_rank()).backward();
  const double mean = (get_world_size() - 1) / 2.0;
  for (const at::Tensor& one : ddp.parameters()) {
    EXPECT_EQ(one.grad().dtype(), one.dtype());
    EXPECT_TRUE(one.grad().allclose(at::full_like(one, mean))) << one.grad();
  }
}

TEST_F(DdpGradientsMultirankTest, ComputesGradientsOfAGraphThatOutlivesItsModel) {
  at::Tensor output, weight;
  {
    DistributedDataParallel ddp(TwoLayers(), {.static_graph = true});
    weight = ddp.parameters()[0];
    output = loss(ddp(data()));
  }
  output.backward();
  EXPECT_TRUE(weight.grad().defined());
}

}  // namespace
}  // namespace distrun
