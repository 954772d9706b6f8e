// Checkpoints of sharded models, on every rank of a run, and loaded on other numbers of ranks.
#include <memory>
#include <string>
#include <vector>

#include <torch/optim/adagrad.h>
#include <torch/optim/adamw.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include "distrun/checkpoint.h"
#include "distrun/device_mesh.h"
#include "distrun/tensor_parallel.h"
#include "distrun/zero_redundancy_optimizer.h"
#include "parallel/checkpoint/test/checkpoint_multirank_fixture.h"
#include "parallel/fsdp/test/fsdp_multirank_fixture.h"

namespace distrun {
namespace {

using Sharded = FullyShardedDataParallel<ShardedNet>;

// Both layers have sizes that 1, 2 and 3 ranks divide.
struct DividedMlpImpl : torch::nn::Module {
  ColwiseParallel up{nullptr};
  RowwiseParallel down{nullptr};
  explicit DividedMlpImpl(const DeviceMesh& tp) {
    up = register_module("up", ColwiseParallel(torch::nn::Linear(6, 12), tp));
    down = register_module("down", RowwiseParallel(torch::nn::Linear(12, 6), tp));
  }
  at::Tensor forward(const at::Tensor& x) { return down(at::relu(up(x))); }
};
TORCH_MODULE(DividedMlp);

struct WholeMlpImpl : torch::nn::Module {
  torch::nn::Linear up{nullptr}, down{nullptr};
  WholeMlpImpl() {
    up = register_module("up", torch::nn::Linear(6, 12));
    down = register_module("down", torch::nn::Linear(12, 6));
  }
};

class CheckpointMultirankTest : public CheckpointMultirankFixture {
 protected:
  static Sharded sharded(const Group& group = {}) {
    return Sharded(sharded_net({.process_group = group}), {.process_group = group});
  }
  template <class Fsdp>
  static void train(Fsdp& fsdp, torch::optim::Optimizer& optimizer, int steps, int first = 0) {
    for (int step = first; step < first + steps; ++step) {
      optimizer.zero_grad();
      loss(fsdp(input(step))).backward();
      optimizer.step();
    }
  }
};

TEST_F(CheckpointMultirankTest, ACheckpointOfAllRanksLoadsOnEveryNumberOfRanks) {
  Sharded saved = sharded();
  saved.module()->named_buffers()["seen"].fill_(3);
  save_checkpoint(path_, state_of(saved));
  const auto expected = plain_copy(saved);
  for (int count = 1; count <= get_world_size(); ++count) {
    const Group group = new_group(first_ranks(count));
    if (!group.is_member()) continue;
    Sharded loaded = sharded(group);
    CheckpointState state = state_of(loaded);
    load_checkpoint(path_, state, {.process_group = group});
    expect_values(loaded.full_state_dict(), *expected, 0);
    EXPECT_EQ(loaded.module()->named_buffers()["seen"][0].item<int>(), 3);
    barrier({.group = group});
  }
}

TEST_F(CheckpointMultirankTest, APlainModuleAndAShardedOneExchangeCheckpoints) {
  Sharded one = sharded(), other = sharded();
  const auto expected = plain_copy(one);
  auto plain = std::make_shared<PlainNet>([] { return std::make_shared<BlockImpl>(); });
  save_checkpoint(path_, state_of(one));
  CheckpointState of_plain = state_of(*plain);
  load_checkpoint(path_, of_plain);
  expect_values(one.full_state_dict(), *plain, 0);
  save_checkpoint(path_, state_of(*plain));
  CheckpointState of_other = state_of(other);
  load_checkpoint(path_, of_other);
  expect_values(other.full_state_dict(), *expected, 0);
}

// The parameters of each rank are parts of parts.
TEST_F(CheckpointMultirankTest, TensorParallelLayersWithinFsdpHaveWholeParameters) {
  const int tp = get_world_size() == 4 ? 2 : get_world_size();
  const DeviceMesh mesh = init_device_mesh(at::kCPU, {get_world_size() / tp, tp}, {"dp", "tp"});
  torch::manual_seed(7);
  const FsdpOptions options{.process_group = mesh.get_group("dp")};
  const DeviceMesh tp_mesh = mesh["tp"];
  FullyShardedDataParallel<DividedMlp> saved{DividedMlp(tp_mesh), options};
  save_checkpoint(path_, state_of(saved));

  WholeMlpImpl plain;
  CheckpointState of_plain = state_of(plain);
  load_checkpoint(path_, of_plain);
  saved.unshard();
  const auto whole_up = saved.module()->up->full_state_dict(),
             whole_down = saved.module()->down->full_state_dict();
  EXPECT_TRUE(plain.up->weight.equal(whole_up["weight"]));
  EXPECT_TRUE(plain.up->bias.equal(whole_up["bias"]));
  EXPECT_TRUE(plain.down->weight.equal(whole_down["weight"]));
  EXPECT_TRUE(plain.down->bias.equal(whole_down["bias"]));
  saved.reshard();

  FullyShardedDataParallel<DividedMlp> loaded{DividedMlp(tp_mesh), options};
  CheckpointState of_loaded = state_of(loaded);
  load_checkpoint(path_, of_loaded);
  const auto a = saved.shards(), b = loaded.shards();
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(a[i].values.equal(b[i].values));
}

template <class Optimizer>
class CheckpointOptimizerMultirankTest : public CheckpointMultirankTest {};

struct MomentumSgd : torch::optim::SGD {
  explicit MomentumSgd(const std::vector<at::Tensor>& parameters)
      : SGD(parameters, torch::optim::SGDOptions(0.01).momentum(0.9).dampening(0.5)) {}
};
struct PlainSgd : torch::optim::SGD {
  explicit PlainSgd(const std::vector<at::Tensor>& parameters)
      : SGD(parameters, torch::optim::SGDOptions(0.01)) {}
};
struct AmsgradAdam : torch::optim::Adam {
  explicit AmsgradAdam(const std::vector<at::Tensor>& parameters)
      : Adam(parameters, torch::optim::AdamOptions(0.01).amsgrad(true)) {}
};
struct CenteredRmsprop : torch::optim::RMSprop {
  explicit CenteredRmsprop(const std::vector<at::Tensor>& parameters)
      : RMSprop(parameters, torch::optim::RMSpropOptions(0.01).centered(true).momentum(0.5)) {}
};
using Optimizers = ::testing::Types<torch::optim::Adam, AmsgradAdam, torch::optim::AdamW,
                                    MomentumSgd, PlainSgd, CenteredRmsprop, torch::optim::Adagrad>;
TYPED_TEST_SUITE(CheckpointOptimizerMultirankTest, Optimizers);

// With the state of the optimizer, training goes on as if it had not stopped.
TYPED_TEST(CheckpointOptimizerMultirankTest, TrainingGoesOnAfterLoading) {
  using Base = CheckpointMultirankTest;
  Sharded saved = Base::sharded();
  TypeParam optimizer(saved.parameters());
  Base::train(saved, optimizer, 3);
  save_checkpoint(this->path_, Base::state_of(saved, optimizer));
  Base::train(saved, optimizer, 3, /*first=*/3);

  Sharded loaded = Base::sharded();
  TypeParam fresh(loaded.parameters());
  CheckpointState state = Base::state_of(loaded, fresh);
  load_checkpoint(this->path_, state);
  Base::train(loaded, fresh, 3, /*first=*/3);
  Base::expect_values(loaded.full_state_dict(), *Base::plain_copy(saved), 0);
}

// Each rank has the state of its share.
TEST_F(CheckpointMultirankTest, ASharedOptimizerContinuesAfterTwoSavesAndAsAPlainOne) {
  const auto make = [] {
    torch::manual_seed(3);
    return torch::nn::Sequential(torch::nn::Linear(4, 6), torch::nn::Linear(6, 3));
  };
  const auto step = [](torch::nn::Sequential& net, torch::optim::Optimizer& optimizer, int steps) {
    for (int i = 0; i < steps; ++i) {
      optimizer.zero_grad();
      (net->forward(at::ones({2, 4})) - 1).pow(2).sum().backward();
      optimizer.step();
    }
  };
  torch::nn::Sequential net = make(), plain = make(), expected = make();
  for (int round = 0; round < 2; ++round) {
    torch::nn::Sequential next = make();
    ZeroRedundancyOptimizer<torch::optim::Adam> optimizer(next->parameters(), 0.01);
    if (round > 0) {
      CheckpointState loaded = state_of(*next, optimizer);
      load_checkpoint(path_, loaded);
    }
    step(next, optimizer, 3);
    EXPECT_EQ(optimizer.state().size() == next->parameters().size(), get_world_size() == 1);
    save_checkpoint(path_, state_of(*next, optimizer));
    net = next;
  }
  torch::optim::Adam of_plain(plain->parameters(), 0.01), of_expected(expected->parameters(), 0.01);
  step(expected, of_expected, 9);
  CheckpointState loaded = state_of(*plain, of_plain);
  load_checkpoint(path_, loaded);
  step(plain, of_plain, 3);
  for (std::size_t i = 0; i < expected->parameters().size(); ++i) {
    EXPECT_TRUE(plain->parameters()[i].allclose(expected->parameters()[i], 1e-6, 1e-7)) << i;
  }
}

TEST_F(CheckpointMultirankTest, ParametersWithoutElementsAreSaved) {
  struct EmptyImpl : torch::nn::Module {
    at::Tensor none = register_parameter("none", at::zeros({0, 3})),
               some = register_parameter("some", at::ones({5}));
    at::Tensor forward(const at::Tensor& x) { return x + some.sum() + none.sum(); }
  };
  FullyShardedDataParallel fsdp(std::make_shared<EmptyImpl>());
  save_checkpoint(path_, state_of(fsdp));
  EmptyImpl plain;
  CheckpointState state = state_of(plain);
  load_checkpoint(path_, state);
  EXPECT_TRUE(plain.some.equal(at::ones({5})));
}

TEST_F(CheckpointMultirankTest, ASharedParameterIsSavedByEachName) {
  struct SharedWeightImpl : torch::nn::Module {
    at::Tensor weight = register_parameter("embedding", at::rand({5, 3}));
    SharedWeightImpl() { register_parameter("last", weight); }
    at::Tensor forward(const at::Tensor& x) { return x.matmul(weight.t()).matmul(weight); }
  };
  torch::manual_seed(11);
  FullyShardedDataParallel saved(std::make_shared<SharedWeightImpl>());
  torch::optim::Adam optimizer(saved.parameters());
  saved(at::ones({1, 3})).sum().backward();
  optimizer.step();
  save_checkpoint(path_, state_of(saved, optimizer));
  const at::Tensor whole = saved.full_state_dict()["embedding"];
  for (const std::string name : {"embedding", "last"}) {
    const at::Tensor loaded = at::zeros({5, 3});
    CheckpointState state;
    state.add(name, loaded);
    load_checkpoint(path_, state);
    EXPECT_TRUE(loaded.equal(whole)) << name;
  }
  FullyShardedDataParallel other(std::make_shared<SharedWeightImpl>());
  torch::optim::Adam of_other(other.parameters());
  CheckpointState state = state_of(other, of_other);
  load_checkpoint(path_, state);
  EXPECT_TRUE(other.full_state_dict()["last"].equal(whole));
  EXPECT_EQ(of_other.state().size(), 1);
}

// Before its first step, an optimizer has nothing; loading restores this too.
TEST_F(CheckpointMultirankTest, AnOptimizerBeforeItsFirstStepLoadsAsSuch) {
  torch::nn::Linear net(3, 2);
  torch::optim::Adam optimizer(net->parameters());
  save_checkpoint(path_, state_of(*net, optimizer));
  net->forward(at::ones({1, 3})).sum().backward();
  optimizer.step();
  EXPECT_EQ(optimizer.state().size(), 2);
  CheckpointState state = state_of(*net, optimizer);
  load_checkpoint(path_, state);
  EXPECT_EQ(optimizer.state().size(), 0);
}

// A save ends on all ranks at once, so the next one can be that of another group.
TEST_F(CheckpointMultirankTest, EachRankSavesAfterASaveOfAll) {
  const Group last = new_group({get_world_size() - 1});
  for (int round = 0; round < 20; ++round) {
    save_checkpoint(path_, state_of(at::ones({4})));
    if (last.is_member()) {
      save_checkpoint(path_, state_of(at::full({4}, round)), {.process_group = last});
    }
    barrier();
  }
}

}  // namespace
}  // namespace distrun
