// Models with SyncBatchNorm train on several ranks as models with BatchNorm on one rank that has
// the data of all.
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include <ATen/ops/relu.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include "distrun/distributed_data_parallel.h"
#include "distrun/fully_sharded_data_parallel.h"
#include "distrun/join.h"
#include "parallel/norm/test/sync_batch_norm_fixture.h"

namespace distrun {
namespace {

// A layer in the middle, and one that gets the input.
template <class Norm>
struct NormNetImpl : torch::nn::Module {
  Norm first = register_module("first", Norm(kChannels));
  torch::nn::Conv2d conv = register_module("conv", torch::nn::Conv2d(kChannels, 5, 2));
  Norm second = register_module("second", Norm(5));
  torch::nn::Linear last = register_module("last", torch::nn::Linear(5, 2));
  at::Tensor forward(const at::Tensor& x) {
    return last(at::relu(second(conv(first(x)))).mean({2, 3}));
  }
};
using PlainNormNet = NormNetImpl<torch::nn::BatchNorm2d>;
using SyncNormNet = NormNetImpl<SyncBatchNorm>;

class SyncBatchNormTrainingMultirankTest : public SyncBatchNormMultirankTest {
 protected:
  static void copy_state(const torch::nn::Module& from, const torch::nn::Module& to) {
    const at::NoGradGuard no_grad;
    const auto parameters = from.named_parameters();
    for (const auto& one : to.named_parameters()) one.value().copy_(parameters[one.key()]);
  }
  static void expect_same_state(const torch::nn::Module& actual,
                                const torch::nn::Module& expected) {
    const auto buffers = expected.named_buffers(), parameters = expected.named_parameters();
    ASSERT_EQ(actual.named_buffers().keys(), buffers.keys());
    for (const auto& one : actual.named_buffers()) {
      expect_close(one.value(), buffers[one.key()], 1e-4, one.key());
    }
    for (const auto& one : actual.named_parameters()) {
      expect_close(one.value(), parameters[one.key()], 1e-4, one.key());
    }
  }

  static at::Tensor errors(const at::Tensor& output) { return (output - 1).pow(2).sum(); }

  // The mean over ranks of what each rank minimizes is what the plain module minimizes.
  template <class Net>
  static void train(Net& net, torch::optim::Optimizer& optimizer, PlainNormNet& plain,
                    const Rows& rows) {
    torch::optim::SGD plain_optimizer(plain.parameters(), 0.05);
    for (int step = 0; step < 5; ++step) {
      const at::Tensor whole = whole_batch(rows, {4, 3});
      const double count = static_cast<double>(whole.size(0));
      plain_optimizer.zero_grad();
      (errors(plain.forward(whole)) / count).backward();
      plain_optimizer.step();
      optimizer.zero_grad();
      (errors(net(part(whole, rows))) * (get_world_size() / count)).backward();
      optimizer.step();
    }
  }
};

TEST_F(SyncBatchNormTrainingMultirankTest, DistributedDataParallelTrainsAsOneProcess) {
  for (const Rows& rows : rows_to_try(get_world_size())) {
    for (const bool broadcast_buffers : {true, false}) {
      SCOPED_TRACE(c10::str(at::IntArrayRef(rows), " ", broadcast_buffers));
      PlainNormNet plain;
      const auto net = std::make_shared<SyncNormNet>();
      copy_state(plain, *net);
      DistributedDataParallel ddp(net, {.broadcast_buffers = broadcast_buffers});
      torch::optim::SGD optimizer(ddp.parameters(), 0.05);
      train(ddp, optimizer, plain, rows);
      expect_same_state(*net, plain);
    }
  }
}

TEST_F(SyncBatchNormTrainingMultirankTest, ConvertedModelsTrainAsOneProcess) {
  const Rows rows(static_cast<std::size_t>(get_world_size()), 3);
  const auto make = [] {
    return torch::nn::Sequential(torch::nn::Linear(kChannels, 4), torch::nn::BatchNorm1d(4),
                                 torch::nn::Linear(4, 2), torch::nn::BatchNorm1d(2));
  };
  torch::nn::Sequential plain = make(), net = make();
  copy_state(*plain, *net);
  DistributedDataParallel ddp(convert_sync_batchnorm(net));
  const at::Tensor whole = whole_batch(rows, {});
  for (int step = 0; step < 3; ++step) {
    plain->zero_grad();
    ddp.zero_grad();
    errors(plain->forward(whole)).backward();
    errors(ddp(part(whole, rows))).backward();
  }
  for (const auto& one : net->named_parameters()) {
    expect_close(one.value().grad() * get_world_size(), plain->named_parameters()[one.key()].grad(),
                 1e-3, one.key());
  }
  for (const auto& one : net->named_buffers()) {
    expect_close(one.value(), plain->named_buffers()[one.key()], 1e-4, one.key());
  }
}

TEST_F(SyncBatchNormTrainingMultirankTest, FullyShardedDataParallelTrainsAsOneProcess) {
  for (const Rows& rows : rows_to_try(get_world_size())) {
    SCOPED_TRACE(at::IntArrayRef(rows));
    PlainNormNet plain;
    const auto net = std::make_shared<SyncNormNet>();
    copy_state(plain, *net);
    FullyShardedDataParallel fsdp(net, {.reshard_after_forward = true});
    torch::optim::SGD optimizer(fsdp.parameters(), 0.05);
    train(fsdp, optimizer, plain, rows);
    fsdp.unshard();
    expect_same_state(*net, plain);
    fsdp.reshard();
  }
}

// A block, which is a unit of FullyShardedDataParallel if it has a SyncBatchNorm.
template <class Norm>
struct NormBlockImpl : torch::nn::Module {
  torch::nn::Conv2d conv = register_module("conv", torch::nn::Conv2d(kChannels, kChannels, 1));
  Norm norm = register_module("norm", Norm(kChannels));
  at::Tensor forward(const at::Tensor& x) { return x + at::relu(norm(conv(x))); }
};

TEST_F(SyncBatchNormTrainingMultirankTest, CollectivesOfUnitsAndLayersHaveOneOrder) {
  using Plain = NormBlockImpl<torch::nn::BatchNorm2d>;
  using Unit = FullyShardedDataParallel<NormBlockImpl<SyncBatchNorm>>;
  torch::nn::Sequential plain, units;
  for (int i = 0; i < 3; ++i) {
    plain->push_back(std::make_shared<Plain>());
    const auto block = std::make_shared<NormBlockImpl<SyncBatchNorm>>();
    copy_state(*plain->ptr(static_cast<std::size_t>(i)), *block);
    units->push_back(std::make_shared<Unit>(block));
  }
  FullyShardedDataParallel fsdp(units);
  torch::optim::SGD optimizer(fsdp.parameters(), 0.05), plain_optimizer(plain->parameters(), 0.05);
  const Rows rows(static_cast<std::size_t>(get_world_size()), 4);
  for (int step = 0; step < 4; ++step) {
    const at::Tensor whole = whole_batch(rows, {4, 3});
    optimizer.zero_grad();
    errors(fsdp(part(whole, rows)) / 10).backward();
    optimizer.step();
    plain_optimizer.zero_grad();
    (errors(plain->forward(whole) / 10) / get_world_size()).backward();
    plain_optimizer.step();
  }
  const FsdpState state = fsdp.full_state_dict();
  for (const auto& one : plain->named_parameters()) {
    expect_close(state[one.key()], one.value(), 1e-3, one.key());
  }
  for (const auto& one : plain->named_buffers()) {
    expect_close(state[one.key()], one.value(), 1e-3, one.key());
  }
}

// Parameters and inputs are bfloat16, and running statistics are float.
TEST_F(SyncBatchNormTrainingMultirankTest, WorksInTheMixedPrecisionOfFullyShardedDataParallel) {
  const Rows rows(static_cast<std::size_t>(get_world_size()), 4);
  const auto net = std::make_shared<SyncNormNet>();
  PlainNormNet plain;
  copy_state(*net, plain);
  FullyShardedDataParallel fsdp(
      net, {.mp_policy = {.param_dtype = at::kBFloat16, .output_dtype = at::kFloat}});
  const at::Tensor whole = whole_batch(rows, {4, 3});
  const at::Tensor output = fsdp(part(whole, rows));
  expect_close(output, part(plain.forward(whole), rows), 0.05, "output");
  errors(output).backward();
  EXPECT_EQ(net->second->running_var.scalar_type(), at::kFloat);
  expect_close(net->second->running_var, plain.second->running_var, 0.02, "running_var");
}

// Joined ranks do not call forward(), so the layer could not synchronize.
TEST_F(SyncBatchNormTrainingMultirankTest, AJoinThatThrowsEndsBeforeAForwardThatWouldHang) {
  if (get_world_size() == 1) GTEST_SKIP() << "needs uneven inputs";
  DistributedDataParallel ddp(std::make_shared<SyncNormNet>());
  int batches = 0;
  EXPECT_THAT(error_of([&] {
                Join({ddp}, {.throw_on_early_termination = true}).run([&] {
                  for (int i = 0; i < 2 + get_rank(); ++i, ++batches) {
                    errors(ddp(at::randn({2, kChannels, 4, 3}))).backward();
                  }
                });
              }),
              ::testing::HasSubstr("exhausted"));
  EXPECT_EQ(batches, 2);
}

}  // namespace
}  // namespace distrun
