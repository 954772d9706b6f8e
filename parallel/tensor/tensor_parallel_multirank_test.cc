// Tensor parallel layers on every rank of a run, compared with the plain layers.
//
//     distrun launch --nproc-per-node 2 build/tests/parallel_multirank_test
//         --gtest_filter='TensorParallelMultirankTest.*'
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/relu.h>
#include <gmock/gmock.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/utils/clip_grad.h>
#include <torch/optim/adam.h>
#include <torch/utils.h>

#include "backends/test/multirank_test.h"
#include "distrun/fully_sharded_data_parallel.h"
#include "distrun/tensor_parallel.h"

namespace distrun {
namespace {

using tensor::Placement;
using tensor::Replicate;

// Sizes that 1, 2, 3 and 4 ranks divide.
constexpr int kIn = 12, kOut = 24, kRows = 12;

class TensorParallelMultirankTest : public MultirankTest {
 protected:
  // All ranks draw the same inputs; weights differ, to detect a missing broadcast.
  void SetUp() override {
    MultirankTest::SetUp();
    torch::manual_seed(7);
  }
  template <class Layer, class Options>
  static Layer plain_layer(const Options& options) {
    torch::manual_seed(static_cast<std::uint64_t>(get_rank()) + 1);
    Layer layer(options);
    torch::manual_seed(7);
    return layer;
  }
  static DeviceMesh mesh() { return init_device_mesh(at::kCPU, {get_world_size()}, {"tp"}); }

  // What this rank has of a whole tensor.
  static at::Tensor part(const at::Tensor& whole, const Placement& placement) {
    const auto* shard = std::get_if<tensor::Shard>(&placement);
    if (shard == nullptr) return whole;
    return whole.chunk(get_world_size(), shard->dim)[static_cast<std::size_t>(get_rank())];
  }

  // Runs both, and compares outputs, gradients of the input and of the parameters.
  template <class Parallel, class Plain>
  static void expect_same(Parallel& parallel, Plain& plain, const at::Tensor& input,
                          const Placement& from, const Placement& to) {
    {
      const at::NoGradGuard no_grad;
      const auto state = parallel->full_state_dict();
      for (auto& one : plain->named_parameters()) one.value().copy_(state[one.key()]);
    }
    at::Tensor x = input.detach().clone(), local = part(input, from).detach().clone();
    if (input.is_floating_point()) {
      x.requires_grad_();
      local.requires_grad_();
    }
    const at::Tensor whole = plain->forward(x), own = parallel->forward(local);
    EXPECT_TRUE(own.allclose(part(whole, to), 1e-5, 1e-5));
    const at::Tensor factors = at::randn(whole.sizes());
    (whole * factors).sum().backward();
    (own * part(factors, to)).sum().backward();
    if (input.is_floating_point()) {
      EXPECT_TRUE(local.grad().allclose(part(x.grad(), from), 1e-4, 1e-5));
    }
    const auto parameters = plain->named_parameters();
    for (const ParallelParameter& one : parallel->parallel_parameters()) {
      SCOPED_TRACE(one.name);
      EXPECT_EQ(at::IntArrayRef(one.sizes), parameters[one.name].sizes());
      EXPECT_TRUE(
          one.local.grad().allclose(part(parameters[one.name].grad(), one.placement), 1e-4, 1e-5));
    }
  }
};

TEST_F(TensorParallelMultirankTest, LayersEqualThePlainOnesInAllLayouts) {
  const std::vector<Placement> all = {Replicate(), tensor::Shard(0), tensor::Shard(1),
                                      tensor::Shard(-1)};
  const DeviceMesh tp = mesh();
  for (const Placement& from : all) {
    for (const Placement& to : all) {
      SCOPED_TRACE(c10::str(from.index(), " to ", to.index()));
      const at::Tensor input = at::randn({kRows, kRows, kIn});
      for (const bool bias : {true, false}) {
        auto plain = plain_layer<torch::nn::Linear>(torch::nn::LinearOptions(kIn, kOut).bias(bias));
        ColwiseParallel colwise(plain, tp, ParallelLayouts{from, to});
        expect_same(colwise, plain, input, from, to);
        RowwiseParallel rowwise(plain, tp, ParallelLayouts{from, to});
        plain->zero_grad();
        expect_same(rowwise, plain, input, from, to);
      }
    }
  }
}

TEST_F(TensorParallelMultirankTest, EmbeddingsEqualThePlainOnes) {
  const DeviceMesh tp = mesh();
  const at::Tensor indices = at::randint(0, kOut, {kRows, kRows});
  for (const Placement& from : {Placement(Replicate()), Placement(tensor::Shard(0))}) {
    auto plain = plain_layer<torch::nn::Embedding>(torch::nn::EmbeddingOptions(kOut, kIn));
    for (const Placement& to : {Placement(Replicate()), Placement(tensor::Shard(1))}) {
      RowwiseEmbedding rowwise(plain, tp, ParallelLayouts{from, to});
      expect_same(rowwise, plain, indices, from, to);
      plain->zero_grad();
      ColwiseEmbedding colwise(plain, tp, ParallelLayouts{from, to});
      expect_same(colwise, plain, indices, from, to);
      plain->zero_grad();
    }
  }
}

TEST_F(TensorParallelMultirankTest, SequenceParallelEqualsThePlainNorm) {
  const DeviceMesh tp = mesh();
  for (const std::int64_t dim : {0, 1}) {
    auto plain = plain_layer<torch::nn::LayerNorm>(torch::nn::LayerNormOptions({kIn}));
    SequenceParallel parallel(plain, tp, dim);
    expect_same(parallel, plain, at::randn({kRows, kRows, kIn}), tensor::Shard(dim),
                tensor::Shard(dim));
  }
  torch::nn::LayerNorm none(torch::nn::LayerNormOptions({kIn}).elementwise_affine(false));
  EXPECT_TRUE(SequenceParallel(none, tp)(at::ones({1, 1, kIn})).defined());
}

TEST_F(TensorParallelMultirankTest, ElementsOfASequentialAreReplaced) {
  using Kind = ParallelStyle::Kind;
  torch::nn::Sequential plain(torch::nn::Linear(kIn, kOut), torch::nn::ReLU(),
                              torch::nn::Linear(kOut, kIn));
  for (const auto& one : plain->parameters()) broadcast(one.detach(), 0);
  auto parallel = parallelize_module(
      plain, mesh(),
      {{"0", {Kind::kColwise, tensor::Shard(0)}}, {"2", {Kind::kRowwise, {}, tensor::Shard(0)}}});
  EXPECT_EQ(parallel->size(), 3);
  EXPECT_EQ(parallel->ptr(1), plain->ptr(1));
  const at::Tensor input = at::randn({kRows, kIn});
  EXPECT_TRUE(parallel->forward(part(input, tensor::Shard(0)))
                  .allclose(part(plain->forward(input), tensor::Shard(0)), 1e-4, 1e-5));

  EXPECT_EQ(error_of([&] {
              parallelize_module(plain, mesh(), {{"3", {}}});
            }),
            "parallelize_module: the module has no element '3'");
  EXPECT_EQ(error_of([&] {
              parallelize_module(plain, mesh(), {{"1", {}}});
            }),
            "parallelize_module: element '1' is a torch::nn::ReLUImpl, which has no such "
            "style, or not with these layouts");
}

TEST_F(TensorParallelMultirankTest, ErrorsNameTheSize) {
  const DeviceMesh tp = mesh();
  EXPECT_EQ(error_of([&] {
              ColwiseParallel(torch::nn::Linear(kIn, kOut),
                              init_device_mesh(at::kCPU, {1, get_world_size()}));
            }),
            "ColwiseParallel: the mesh has 2 dimensions; expected one, such as mesh[\"tp\"]");
  EXPECT_EQ(error_of([&] {
              RowwiseEmbedding(
                  torch::nn::Embedding(torch::nn::EmbeddingOptions(6, 2).padding_idx(0)), tp);
            }),
            "RowwiseEmbedding: the option padding_idx is not supported; use ColwiseEmbedding");
  EXPECT_EQ(error_of([&] {
              ColwiseEmbedding(torch::nn::Embedding(torch::nn::EmbeddingOptions(6, 2).sparse(true)),
                               tp);
            }),
            "ColwiseEmbedding: options max_norm, sparse and scale_grad_by_freq are not supported");
  RowwiseParallel deep(torch::nn::Linear(kIn, kOut), tp,
                       ParallelLayouts{Replicate(), tensor::Shard(3)});
  EXPECT_EQ(
      error_of([&] {
        deep(at::ones({5, kIn}));
      }),
      "a tensor with sizes [5, 24] has no dimension 3 to divide among ranks (RowwiseParallel)");
  RowwiseParallel narrow(torch::nn::Linear(kIn, kOut), tp);
  EXPECT_EQ(error_of([&] {
              narrow(at::ones({2, kIn + 1}));
            }),
            "RowwiseParallel: the input has sizes [2, 13]; expected [.., " +
                std::to_string(kIn / get_world_size()) + "]");
  RowwiseEmbedding table(torch::nn::Embedding(kOut, kIn), tp);
  EXPECT_EQ(error_of([&] { table(at::full({1}, kOut, at::kLong)); }),
            "RowwiseEmbedding: an index is out of range; expected 0 to 23");
  if (get_world_size() == 1) return;
  const std::string ranks = std::to_string(get_world_size());
  EXPECT_EQ(error_of([&] { ColwiseParallel(torch::nn::Linear(kIn, 7), tp); }),
            "ColwiseParallel: weight has sizes [7, 12], and dimension 0 cannot be divided among " +
                ranks + " ranks");
  RowwiseParallel layer(torch::nn::Linear(kIn, kOut), tp,
                        ParallelLayouts{Replicate(), tensor::Shard(0)});
  EXPECT_EQ(error_of([&] {
              layer(at::ones({5, kIn}));
            }),
            "a tensor with sizes [5, 24] cannot be divided among " + ranks +
                " ranks along dimension 0 (RowwiseParallel)");
  const torch::nn::Sequential net(torch::nn::Linear(kIn, 7));
  EXPECT_THAT(error_of([&] {
                parallelize_module(net, tp, {{"0", {ParallelStyle::Kind::kColwise}}});
              }),
              ::testing::AllOf(::testing::HasSubstr("ColwiseParallel: weight has sizes [7, 12]"),
                               ::testing::HasSubstr("element '0' of parallelize_module")));
}

// An MLP whose parts lie on the ranks of "tp", sharded again over the ranks of "dp".
struct MlpImpl : torch::nn::Module {
  ColwiseParallel up{nullptr};
  RowwiseParallel down{nullptr};
  MlpImpl(const torch::nn::Linear& wide, const torch::nn::Linear& narrow, const DeviceMesh& tp) {
    up = register_module("up", ColwiseParallel(wide, tp));
    down = register_module("down", RowwiseParallel(narrow, tp));
  }
  at::Tensor forward(const at::Tensor& x) { return down(at::relu(up(x))); }
};

TEST_F(TensorParallelMultirankTest, TrainsInTwoDimensions) {
  const int ranks = get_world_size(), tp = ranks % 2 == 0 ? 2 : 1;
  const DeviceMesh grid = init_device_mesh(at::kCPU, {ranks / tp, tp}, {"dp", "tp"});
  torch::nn::Linear wide(kIn, kOut), narrow(kOut, kIn);  // The same on all ranks.
  FullyShardedDataParallel fsdp(std::make_shared<MlpImpl>(wide, narrow, grid["tp"]),
                                {.process_group = grid.get_group("dp")});
  torch::optim::Adam optimizer(fsdp.parameters(), torch::optim::AdamOptions(0.01));
  std::vector<at::Tensor> plain = wide->parameters();
  for (const at::Tensor& one : narrow->parameters()) plain.push_back(one);
  torch::optim::Adam plain_optimizer(plain, torch::optim::AdamOptions(0.01));
  for (int step = 0; step < 5; ++step) {
    const at::Tensor inputs = at::randn({ranks / tp, 6, kIn});
    optimizer.zero_grad();
    fsdp(inputs[grid.get_local_rank("dp")]).pow(2).mean().backward();
    const double norm = fsdp.clip_grad_norm_(0.02).item<double>();
    optimizer.step();
    plain_optimizer.zero_grad();
    narrow(at::relu(wide(inputs))).pow(2).mean().backward();
    EXPECT_NEAR(torch::nn::utils::clip_grad_norm_(plain, 0.02), norm, 1e-4 * norm);
    plain_optimizer.step();
  }
  EXPECT_THAT(error_of([&] { fsdp.module()->up->full_state_dict(); }),
              ::testing::HasSubstr("call unshard() of its FullyShardedDataParallel first"));
  fsdp.unshard();
  const auto up = fsdp.module()->up->full_state_dict(),
             down = fsdp.module()->down->full_state_dict();
  fsdp.reshard();
  EXPECT_TRUE(up["weight"].allclose(wide->weight, 1e-4, 1e-5));
  EXPECT_TRUE(up["bias"].allclose(wide->bias, 1e-4, 1e-5));
  EXPECT_TRUE(down["weight"].allclose(narrow->weight, 1e-4, 1e-5));
  EXPECT_TRUE(down["bias"].allclose(narrow->bias, 1e-4, 1e-5));
}

}  // namespace
}  // namespace distrun
