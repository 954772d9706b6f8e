// DdpOptions::mixed_precision, on every rank of a run.
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include <ATen/ops/embedding.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mm.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/embedding.h>
#include <torch/optim/sgd.h>
#include <torch/serialize.h>

#include "distrun/apply_optimizer_in_backward.h"
#include "distrun/comm_hooks.h"
#include "distrun/join.h"
#include "parallel/ddp/test/ddp_multirank_fixture.h"

namespace distrun {
namespace {

using ::testing::HasSubstr;

constexpr at::ScalarType kLow = at::kBFloat16;
constexpr DdpMixedPrecision kComputesLow{.param_dtype = kLow, .reduce_dtype = at::kFloat};

bool has_low_values(const at::Tensor& tensor) {
  return tensor.equal(tensor.to(kLow).to(at::kFloat));
}

// One weight; the gradient is the sum of the input's rows.
struct ScaledImpl : torch::nn::Module {
  at::Tensor weight;
  at::ScalarType seen = at::kFloat;
  explicit ScaledImpl(double value = 1, std::int64_t size = 3)
      : weight(register_parameter("weight", at::full({size}, value))) {}
  at::Tensor forward(const at::Tensor& x) {
    seen = weight.scalar_type();
    TORCH_CHECK_VALUE(x.numel() > 0, "no input");
    return x * weight;
  }
};
TORCH_MODULE(Scaled);

struct IndicesImpl : torch::nn::Module {
  torch::nn::Embedding embedding;
  torch::nn::BatchNorm1d norm;
  at::Tensor frozen;
  explicit IndicesImpl(bool sparse = false)
      : embedding(register_module(
            "embedding", torch::nn::Embedding(torch::nn::EmbeddingOptions(4, 2).sparse(sparse)))),
        norm(register_module("norm", torch::nn::BatchNorm1d(2))),
        frozen(register_parameter("frozen", at::ones({2, 2}), /*requires_grad=*/false)) {}
  at::Tensor forward(const at::Tensor& indices) { return norm(at::mm(embedding(indices), frozen)); }
};
TORCH_MODULE(Indices);

class DdpMixedPrecisionMultirankTest : public DdpMultirankTest {
 protected:
  // Of the ranks' inputs: computed in the low precision, and averaged in full precision.
  static Tensors expected_gradients(TwoLayersImpl& net) {
    Tensors mean;
    for (int rank = 0; rank < get_world_size(); ++rank) {
      TwoLayersImpl alone;
      for (std::size_t i = 0; i < net.parameters().size(); ++i) {
        alone.parameters()[i].set_data(net.parameters()[i].detach().to(kLow));
      }
      loss(alone.forward(data_of(rank).to(kLow))).backward();
      for (std::size_t i = 0; i < net.parameters().size(); ++i) {
        const at::Tensor share = alone.parameters()[i].grad().to(at::kFloat) / get_world_size();
        if (rank == 0) mean.push_back(at::zeros_like(share));
        mean[i] += share;
      }
    }
    return mean;
  }

  static void expect_trains(DdpOptions options) {
    options.mixed_precision = kComputesLow;
    DistributedDataParallel ddp(TwoLayers(), options);
    for (int iteration = 0; iteration < 3; ++iteration) {
      SCOPED_TRACE(iteration);
      ddp.zero_grad(/*set_to_none=*/!options.gradient_as_bucket_view);
      const Tensors expected = expected_gradients(*ddp.module());
      const at::Tensor output = ddp(data());
      EXPECT_EQ(output.scalar_type(), kLow);
      loss(output).backward();
      expect_gradients(*ddp.module(), expected);
      for (const at::Tensor& one : ddp.parameters()) {
        EXPECT_EQ(one.scalar_type(), at::kFloat);
        EXPECT_EQ(one.grad().scalar_type(), at::kFloat);
        expect_same_everywhere(one);
      }
      const at::NoGradGuard no_grad;
      for (at::Tensor& one : ddp.parameters()) one.sub_(one.grad(), 0.001);
    }
  }
};

TEST_F(DdpMixedPrecisionMultirankTest, TrainsLikeLowCopiesOnEveryRank) { expect_trains({}); }
TEST_F(DdpMixedPrecisionMultirankTest, TrainsWithABucketForEachParameter) {
  expect_trains({.bucket_cap_mb = 0});
}
TEST_F(DdpMixedPrecisionMultirankTest, TrainsWithASearchForUnusedParameters) {
  expect_trains({.find_unused_parameters = true});
}
TEST_F(DdpMixedPrecisionMultirankTest, TrainsWithViewsOfBuckets) {
  expect_trains({.gradient_as_bucket_view = true});
}
TEST_F(DdpMixedPrecisionMultirankTest, TrainsAStaticGraph) {
  expect_trains({.static_graph = true});
}

TEST_F(DdpMixedPrecisionMultirankTest, AddsUpdatesThatTheLowPrecisionCannotHold) {
  DistributedDataParallel ddp(Scaled(), {.mixed_precision = kComputesLow});
  const void* memory = ddp.module()->weight.const_data_ptr();
  torch::optim::SGD optimizer(ddp.parameters(), 1e-4);
  for (int i = 0; i < 10; ++i) {
    optimizer.zero_grad();
    ddp(at::ones({3})).sum().backward();
    EXPECT_EQ(ddp.module()->seen, kLow);
    optimizer.step();
  }
  EXPECT_TRUE(ddp.module()->weight.allclose(at::full({3}, 0.999), 1e-6, 0));
  EXPECT_EQ(ddp.module()->weight.const_data_ptr(), memory);
}

// 1 / 3 of three ranks' sum, or half of two ranks': only rounding in between gives low values.
TEST_F(DdpMixedPrecisionMultirankTest, SumsInTheReduceDtype) {
  const at::Tensor x = at::full({3}, 1.001 + get_rank());
  for (const bool low : {true, false}) {
    SCOPED_TRACE(low);
    const DdpMixedPrecision dtypes{.reduce_dtype = low ? kLow : at::kFloat};
    DistributedDataParallel ddp(Scaled(), {.mixed_precision = dtypes});
    ddp(x).sum().backward();
    EXPECT_EQ(ddp.module()->seen, at::kFloat);
    EXPECT_EQ(has_low_values(ddp.module()->weight.grad()), low);
    const double mean = 1.001 + (get_world_size() - 1) / 2.0;
    EXPECT_TRUE(ddp.module()->weight.grad().allclose(at::full({3}, mean), low ? 0.01 : 1e-6, 0));
    EXPECT_EQ(ddp.get_ddp_logging_data().strs_map["comm_hook"], low ? "mixed_precision" : "");
  }
}

TEST_F(DdpMixedPrecisionMultirankTest, WithoutAReduceDtypeItReducesInTheParameterDtype) {
  // The inputs are values of kLow, and the means of two and more ranks are not.
  const at::Tensor x = at::full({2, 3}, 256.0 + 2 * get_rank() * get_rank());
  DistributedDataParallel ddp(Scaled(), {.mixed_precision = {.param_dtype = kLow}});
  ddp(x[0]).sum().backward();
  EXPECT_TRUE(has_low_values(ddp.module()->weight.grad()));
  EXPECT_EQ(ddp.get_ddp_logging_data().strs_map["comm_hook"], "mixed_precision");
}

TEST_F(DdpMixedPrecisionMultirankTest, GradientsAccumulateInTheirOwnDtype) {
  DistributedDataParallel ddp(Scaled(), {.mixed_precision = kComputesLow});
  {
    const auto alone = ddp.no_sync();
    ddp(at::full({3}, 256)).sum().backward();
    EXPECT_EQ(ddp.module()->weight.scalar_type(), at::kFloat);
  }
  ddp(at::ones({3})).sum().backward();
  EXPECT_TRUE(ddp.module()->weight.grad().equal(at::full({3}, 257.0)));
}

TEST_F(DdpMixedPrecisionMultirankTest, SeveralForwardsCanPrecedeTheirBackwards) {
  DistributedDataParallel ddp(TwoLayers(), {.mixed_precision = kComputesLow});
  const at::Tensor weight = ddp.module()->first->weight;
  const auto alone = ddp.no_sync();
  loss(ddp(data())).backward();
  loss(ddp(data_of(7))).backward();
  const at::Tensor expected = weight.grad().clone();
  ddp.zero_grad();
  const at::Tensor first = ddp(data()), second = ddp(data_of(7));
  {
    const at::NoGradGuard no_grad;
    ddp(data());
  }
  loss(second).backward();
  EXPECT_EQ(weight.scalar_type(), at::kFloat);
  loss(first).backward();
  EXPECT_EQ(weight.scalar_type(), at::kFloat);
  EXPECT_TRUE(weight.grad().allclose(expected, 1e-5));
}

TEST_F(DdpMixedPrecisionMultirankTest, ALaterBackwardNeedsCopiesAgain) {
  DdpMixedPrecision dtypes = kComputesLow;
  dtypes.buffer_dtype = kLow;
  DistributedDataParallel ddp(Indices(), {.mixed_precision = dtypes});
  const auto alone = ddp.no_sync();
  const at::Tensor first = ddp(at::arange(3)), second = ddp(at::arange(3));
  loss(second).backward();
  loss(first).backward();  // Multiplies by the frozen parameter.
  EXPECT_EQ(ddp.module()->frozen.scalar_type(), at::kFloat);
}

// The reducer builds new buckets in the second forward with gradients.
TEST_F(DdpMixedPrecisionMultirankTest, TrainsOnAfterAForwardThatDidNotEnd) {
  DistributedDataParallel ddp(Scaled(), {.mixed_precision = kComputesLow});
  for (int i = 0; i < 3; ++i) {
    ddp.zero_grad();
    ddp(at::full({3}, i)).sum().backward();
    EXPECT_TRUE(ddp.module()->weight.grad().equal(at::full({3}, static_cast<float>(i))));
    const at::NoGradGuard no_grad;
    ddp.reducer().before_forward();
    EXPECT_EQ(ddp.module()->weight.scalar_type(), kLow);
  }
}

TEST_F(DdpMixedPrecisionMultirankTest, RestoresParametersWithoutABackward) {
  DistributedDataParallel ddp(Scaled(1.001), {.mixed_precision = kComputesLow});
  const at::Tensor& weight = ddp.module()->weight;
  const auto expect_restored = [&] {
    ASSERT_EQ(weight.scalar_type(), at::kFloat);
    EXPECT_TRUE(weight.equal(at::full({3}, 1.001)));
  };
  {
    const at::NoGradGuard no_grad;
    EXPECT_EQ(ddp(data()).scalar_type(), kLow);
    expect_restored();
  }
  const auto alone = ddp.no_sync();
  const at::Tensor output = ddp(data());
  expect_restored();
  EXPECT_THAT(error_of([&] { ddp(at::ones({0})); }), HasSubstr("no input"));
  expect_restored();
  ddp(data()).sum().backward();
  expect_restored();
  std::optional<at::Tensor> kept;
  {
    DistributedDataParallel other(ddp.module(), {.mixed_precision = kComputesLow});
    const auto also_alone = other.no_sync();
    kept = other(data());
  }
  kept->sum().backward();
  expect_restored();
}

TEST_F(DdpMixedPrecisionMultirankTest, AnOptimizerCanStepBetweenForwardAndBackward) {
  DistributedDataParallel ddp(Scaled(), {.mixed_precision = kComputesLow});
  const at::Tensor& weight = ddp.module()->weight;
  torch::optim::SGD optimizer(ddp.parameters(), 1e-4);
  ddp(at::ones({3})).sum().backward();
  const at::Tensor output = ddp(at::full({3}, 2));
  optimizer.step();
  EXPECT_TRUE(weight.equal(at::full({3}, 0.9999F)));
  output.sum().backward();
  EXPECT_TRUE(weight.equal(at::full({3}, 0.9999F)));
  EXPECT_TRUE(weight.grad().equal(at::full({3}, 3.0)));
}

TEST_F(DdpMixedPrecisionMultirankTest, ParametersCanBeSavedAndLoadedBetweenForwardAndBackward) {
  DistributedDataParallel ddp(Scaled(1.001), {.mixed_precision = kComputesLow});
  const at::Tensor& weight = ddp.module()->weight;
  std::stringstream saved;
  const at::Tensor first = ddp(data());
  torch::save(ddp.module(), saved);
  const Scaled loaded;
  torch::load(loaded.ptr(), saved);
  EXPECT_TRUE(loaded->weight.equal(at::full({3}, 1.001F)));
  first.sum().backward();

  const at::Tensor second = ddp(data());
  std::stringstream other;
  torch::save(Scaled(2.002).ptr(), other);
  torch::load(ddp.module(), other);
  second.sum().backward();
  EXPECT_TRUE(weight.equal(at::full({3}, 2.002F)));
}

TEST_F(DdpMixedPrecisionMultirankTest, TrainsOnAfterABackwardThatThrew) {
  DistributedDataParallel ddp(Scaled(1.001), {.mixed_precision = kComputesLow});
  const at::Tensor& weight = ddp.module()->weight;
  const auto expect_error = [](const at::Tensor& output) {
    EXPECT_THAT(error_of([&] { output.sum().backward(); }), HasSubstr("a hook's error"));
  };
  const auto fail = [](const at::Tensor&) -> at::Tensor {
    TORCH_CHECK_VALUE(false, "a hook's error");
  };
  {
    const at::Tensor output = ddp(data());
    output.register_hook(fail);  // No gradient is ready then.
    expect_error(output);
    EXPECT_TRUE(weight.equal(at::full({3}, 1.001F)));
  }
  {
    const auto alone = ddp.no_sync();
    const at::Tensor output = ddp(data());
    const auto hook = weight.register_hook(fail);
    expect_error(output);
    weight.remove_hook(hook);
    EXPECT_TRUE(weight.equal(at::full({3}, 1.001F)));
  }
  ddp.zero_grad();
  ddp(at::full({3}, 1.0 + get_rank())).sum().backward();
  EXPECT_TRUE(weight.grad().equal(at::full({3}, 1 + (get_world_size() - 1) / 2.0F)));
  EXPECT_TRUE(weight.equal(at::full({3}, 1.001F)));
}

TEST_F(DdpMixedPrecisionMultirankTest, TwoOfThemCanHaveTheSameParameters) {
  DistributedDataParallel ddp(Scaled(1.001), {.mixed_precision = kComputesLow});
  DistributedDataParallel other(ddp.module(), {.mixed_precision = kComputesLow});
  const at::Tensor& weight = ddp.module()->weight;
  const auto alone = ddp.no_sync(), also_alone = other.no_sync();
  for (int i = 0; i < 2; ++i) {
    const at::Tensor first = ddp(at::ones({3})), second = other(at::ones({3}));
    (first + second).sum().backward();
    EXPECT_TRUE(weight.equal(at::full({3}, 1.001F)));
  }
  EXPECT_TRUE(weight.grad().equal(at::full({3}, 4.0)));
}

TEST_F(DdpMixedPrecisionMultirankTest, AChangeOfAnArgumentInPlaceDoesNotReachTheCaller) {
  struct Doubles : torch::nn::Module {
    at::Tensor weight = register_parameter("weight", at::ones({3}));
    at::Tensor forward(at::Tensor& x) { return x.mul_(2) * weight; }
  };
  DistributedDataParallel ddp(std::make_shared<Doubles>(), {.mixed_precision = kComputesLow});
  at::Tensor x = at::ones({3});
  EXPECT_TRUE(ddp(x).equal(at::full({3}, 2, kLow)));
  EXPECT_TRUE(x.equal(at::ones({3})));
}

TEST_F(DdpMixedPrecisionMultirankTest, ConvertsFrozenParametersAndBuffersButNoIntegers) {
  DdpMixedPrecision dtypes = kComputesLow;
  dtypes.buffer_dtype = kLow;
  DistributedDataParallel ddp(Indices(), {.mixed_precision = dtypes});
  const IndicesImpl& net = *ddp.module();
  EXPECT_EQ(net.norm->running_mean.scalar_type(), kLow);
  EXPECT_EQ(net.norm->num_batches_tracked.scalar_type(), at::kLong);
  const at::Tensor output = ddp(at::arange(3));
  EXPECT_EQ(output.scalar_type(), kLow);  // LibTorch multiplies only matrices of one dtype.
  output.pow(2).sum().backward();
  EXPECT_EQ(net.frozen.scalar_type(), at::kFloat);
  EXPECT_FALSE(net.frozen.grad().defined());
  EXPECT_EQ(net.norm->running_mean.scalar_type(), kLow);
}

TEST_F(DdpMixedPrecisionMultirankTest, BatchNormOnACpuNeedsABufferDtype) {
  DistributedDataParallel ddp(Indices(), {.mixed_precision = kComputesLow});
  EXPECT_THAT(error_of([&] { ddp(at::arange(3)); }), HasSubstr("but found Float"));
}

TEST_F(DdpMixedPrecisionMultirankTest, SparseGradientsAreReducedInTheirOwnDtypeOnly) {
  EXPECT_EQ(error_of([] {
              DistributedDataParallel(Indices(true), {.mixed_precision = {.param_dtype = kLow}});
            }),
            "DistributedDataParallel: mixed_precision would reduce the gradient of the parameter "
            "'embedding.weight', which is sparse, as BFloat16; set reduce_dtype to Float");
  DistributedDataParallel ddp(torch::nn::Embedding(torch::nn::EmbeddingOptions(4, 2).sparse(true)),
                              {.mixed_precision = kComputesLow});
  ddp(at::arange(3)).sum().backward();
  const at::Tensor gradient = ddp.module()->weight.grad();
  EXPECT_EQ(gradient.scalar_type(), at::kFloat);
  EXPECT_TRUE(gradient.to_dense()[0].equal(at::ones({2})));
}

TEST_F(DdpMixedPrecisionMultirankTest, UnevenInputsTrainInAJoin) {
  DistributedDataParallel ddp(TwoLayers(), {.mixed_precision = {.param_dtype = kLow}});
  torch::optim::SGD optimizer(ddp.parameters(), 0.001);
  const at::Tensor before = ddp.module()->second->bias.detach().clone();
  Join({ddp}).run([&] {
    for (int i = 0; i <= get_rank(); ++i) {
      optimizer.zero_grad();
      loss(ddp(data())).backward();
      optimizer.step();
    }
  });
  EXPECT_FALSE(ddp.module()->second->bias.equal(before));
  for (const at::Tensor& one : ddp.parameters()) {
    EXPECT_EQ(one.scalar_type(), at::kFloat);
    expect_same_everywhere(one);
  }
}

TEST_F(DdpMixedPrecisionMultirankTest, RejectsWhatItCannotCombine) {
  DistributedDataParallel ddp(Scaled(), {.mixed_precision = {.param_dtype = kLow}});
  const std::vector<DdpMixedPrecision> wrong = {{.param_dtype = at::kInt},
                                                {.reduce_dtype = at::kFloat8_e5m2},
                                                {.buffer_dtype = at::kComplexFloat}};
  const std::vector<std::string> names = {"Int", "Float8_e5m2", "ComplexFloat"};
  for (std::size_t i = 0; i < wrong.size(); ++i) {
    EXPECT_EQ(error_of([&] { DistributedDataParallel(Scaled(), {.mixed_precision = wrong[i]}); }),
              "DistributedDataParallel: mixed_precision has the dtype " + names[i] +
                  "; expected Half, BFloat16, Float or Double");
  }
  EXPECT_THAT(
      error_of([&] {
        static_cast<void>(ddp.reducer().join_hook({{"divide_by_initial_world_size", false}}));
      }),
      HasSubstr("join: a DistributedDataParallel whose mixed_precision converts gradients divides "
                "them by the number of all ranks; leave divide_by_initial_world_size true, or set "
                "its reduce_dtype to the parameters' dtype"));
  const std::string taken =
      "DistributedDataParallel: a communication hook cannot reduce gradients that mixed_precision "
      "converts; set its reduce_dtype to the parameters' dtype";
  EXPECT_THAT(error_of([&] { ddp.register_comm_hook(Group(), allreduce_hook); }), HasSubstr(taken));
  EXPECT_THAT(error_of([&] { ddp.register_builtin_comm_hook(BuiltinCommHook::ALLREDUCE); }),
              HasSubstr(taken));
  DistributedDataParallel other(Scaled(), {.mixed_precision = kComputesLow});
  EXPECT_THAT(
      error_of([&] {
        static_cast<void>(apply_optimizer_in_backward<torch::optim::SGD>(other.reducer(),
                                                                         other.parameters(), 0.1));
      }),
      HasSubstr("DistributedDataParallel: an optimizer cannot update parameters in backward() with "
                "mixed_precision, because they have its param_dtype until backward() ends"));
}

TEST_F(DdpMixedPrecisionMultirankTest, AHookReducesGradientsThatAreNotConverted) {
  DistributedDataParallel ddp(Scaled(), {.mixed_precision = kComputesLow});
  ddp.register_comm_hook(Group(), bf16_compress_hook);
  // Without the hook, the means of two and more ranks are not values of kLow.
  ddp(at::full({3}, 256.0 + 2 * get_rank() * get_rank())).sum().backward();
  const at::Tensor gradient = ddp.module()->weight.grad();
  EXPECT_TRUE(has_low_values(gradient)) << gradient;
  EXPECT_TRUE(gradient.allclose(at::full({3}, 256.0), 0.05, 0)) << gradient;
}

}  // namespace
}  // namespace distrun
