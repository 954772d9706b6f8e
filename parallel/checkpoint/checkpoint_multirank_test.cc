// Checkpoints of sharded models, on every rank of a run, and loaded on other numbers of ranks.
#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <sys/resource.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adamw.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include "common/test/folder.h"
#include "distrun/async_checkpoint.h"
#include "distrun/checkpoint.h"
#include "distrun/device_mesh.h"
#include "distrun/tensor_parallel.h"
#include "distrun/zero_redundancy_optimizer.h"
#include "parallel/checkpoint/checkpoint_folder.h"
#include "parallel/checkpoint/folder_lock.h"
#include "parallel/checkpoint/save_plan.h"
#include "parallel/fsdp/test/fsdp_multirank_fixture.h"

namespace distrun {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;
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

class CheckpointMultirankTest : public FsdpMultirankTest {
 protected:
  // The folder of rank 0.
  void SetUp() override {
    FsdpMultirankTest::SetUp();
    folder_ = std::make_unique<testing::Folder>();
    path_ = broadcast_bytes(folder_->path(), 0) + "/last";
  }
  void TearDown() override {
    if (is_initialized()) barrier();  // No rank removes the folder while others read.
    folder_.reset();
    FsdpMultirankTest::TearDown();
  }

  static CheckpointState state_of(torch::nn::Module& module) {
    CheckpointState state;
    state.add_module(module);
    return state;
  }
  static CheckpointState state_of(torch::nn::Module& module, torch::optim::Optimizer& optimizer) {
    CheckpointState state = state_of(module);
    state.add_optimizer(optimizer, module);
    return state;
  }
  static CheckpointState state_of(const at::Tensor& tensor) {
    CheckpointState state;
    state.add("x", tensor);
    return state;
  }
  static std::vector<int> first_ranks(int count) {
    std::vector<int> ranks;
    for (int rank = 0; rank < count; ++rank) ranks.push_back(rank);
    return ranks;
  }
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
  std::vector<std::string> names_beside() const {
    std::vector<std::string> names;
    for (const auto& one : fs::directory_iterator(fs::path(path_).parent_path())) {
      names.push_back(one.path().filename().string());
    }
    return names;
  }

  std::unique_ptr<testing::Folder> folder_;
  std::string path_;
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

// A load that fails leaves the optimizer as it is.
TEST_F(CheckpointMultirankTest, AFailedLoadDoesNotChangeTheOptimizer) {
  torch::nn::Linear net(3, 2), other(4, 2);
  torch::optim::Adam optimizer(net->parameters()),
      of_other(other->parameters(), torch::optim::AdamOptions().amsgrad(true));
  other->forward(at::ones({1, 4})).sum().backward();
  of_other.step();
  save_checkpoint(path_, state_of(*other, of_other));
  net->forward(at::ones({1, 3})).sum().backward();
  optimizer.step();
  CheckpointState state = state_of(*net, optimizer);
  const auto of_weight = [&]() -> torch::optim::AdamParamState& {
    return dynamic_cast<torch::optim::AdamParamState&>(
        *optimizer.state().at(net->weight.unsafeGetTensorImpl()));
  };
  const at::Tensor average = of_weight().exp_avg().clone();
  EXPECT_THROW(load_checkpoint(path_, state), c10::ValueError);
  EXPECT_EQ(optimizer.state().size(), 2);
  EXPECT_EQ(of_weight().step(), 1);
  EXPECT_TRUE(of_weight().exp_avg().equal(average));
  EXPECT_FALSE(of_weight().max_exp_avg_sq().defined());  // The checkpoint has it.
  torch::optim::Adam without_state(net->parameters());
  CheckpointState of_new = state_of(*net, without_state);
  EXPECT_THROW(load_checkpoint(path_, of_new), c10::ValueError);
  EXPECT_TRUE(without_state.state().empty());
}

// The headers are in the first MiB of the files, and are not damaged.
TEST_F(CheckpointMultirankTest, ALoadOfDamagedValuesLeavesNoStateInANewOptimizer) {
  torch::nn::Linear net(1024, 1024);
  torch::optim::SGD saved(net->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  net->forward(at::ones({1, 1024})).sum().backward();
  saved.step();
  save_checkpoint(path_, state_of(*net, saved));
  if (get_rank() == 0) {
    for (const auto& one : fs::directory_iterator(path_)) {
      if (fs::file_size(one.path()) < 2 << 20) continue;
      std::fstream file(one.path(), std::ios::binary | std::ios::in | std::ios::out);
      file.seekp(-1, std::ios::end);
      file.put('x');
    }
  }
  barrier();
  torch::optim::SGD fresh(net->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  CheckpointState state = state_of(*net, fresh);
  EXPECT_THAT(error_of([&] { load_checkpoint(path_, state); }),
              HasSubstr("is damaged: the checksum of bytes "));
  EXPECT_TRUE(fresh.state().empty());
}

TEST_F(CheckpointMultirankTest, ErrorsOfASubgroupNameGlobalRanks) {
  if (get_world_size() < 3) return;
  const Group group = new_group({1, 2});
  if (!group.is_member()) return;
  CheckpointState state = state_of(at::zeros({2 + get_rank()}));
  EXPECT_EQ(
      error_of<c10::ValueError>([&] { save_checkpoint(path_, state, {.process_group = group}); }),
      "save_checkpoint: 'x' has sizes [3] on rank 1 and [4] on rank 2; expected the same "
      "sizes");
}

TEST_F(CheckpointMultirankTest, RanksThatPassDifferentPathsThrow) {
  const std::string own = path_ + std::to_string(get_rank());
  const std::string error =
      error_of<c10::ValueError>([&] { save_checkpoint(own, state_of(at::zeros({1}))); });
  if (get_world_size() == 1) return;
  EXPECT_EQ(error, "save_checkpoint: rank 0 saves to '" + path_ + "0' and rank 1 to '" + path_ +
                       "1'; expected the same path");
  save_checkpoint(path_ + "0", state_of(at::zeros({1})));
  CheckpointState state = state_of(at::zeros({1}));
  EXPECT_EQ(error_of<c10::ValueError>([&] { load_checkpoint(own, state); }),
            "load_checkpoint: rank 1: the path is '" + path_ + "1', and '" + path_ +
                "0' on rank 0; expected the same path");
}

// Only rank 0 cannot copy its state.
TEST_F(CheckpointMultirankTest, AnErrorOfTheStateOnOneRankIsOneOnAll) {
  torch::nn::Linear net(3, 2);
  torch::optim::Adam optimizer(net->parameters());
  net->forward(at::ones({1, 3})).sum().backward();
  optimizer.step();
  CheckpointState state = state_of(*net, optimizer);
  if (get_rank() == 0) state.add("optim.state.weight.step", at::zeros({}));
  EXPECT_THAT(error_of([&] { save_checkpoint(path_, state); }),
              HasSubstr("save_checkpoint: rank 0: CheckpointState: 'optim.state.weight.step' at [] "
                        "is added twice; use a prefix"));
  AsyncCheckpoint checkpoint;
  checkpoint.save(path_, state);
  EXPECT_THAT(error_of([&] { checkpoint.wait(); }), HasSubstr("is added twice; use a prefix"));
}

TEST_F(CheckpointMultirankTest, AnAsyncCheckpointNeedsItsGroup) {
  auto checkpoint = std::make_unique<AsyncCheckpoint>();
  save_checkpoint(path_, state_of(at::ones({4})));
  barrier();
  destroy_process_group();
  checkpoint->save(path_, state_of(at::zeros({4})));
  EXPECT_THAT(error_of([&] { checkpoint->wait(); }), HasSubstr("has been destroyed"));
  checkpoint = std::make_unique<AsyncCheckpoint>();
  init_process_group({.backend = backend(), .timeout = std::chrono::seconds(30)});
  EXPECT_EQ(error_of([&] { checkpoint->save(path_, {}); }),
            "AsyncCheckpoint: it was created before init_process_group(); create it afterwards");
  const at::Tensor loaded = at::zeros({4});
  CheckpointState state = state_of(loaded);
  load_checkpoint(path_, state);  // The old one remains.
  EXPECT_TRUE(loaded.equal(at::ones({4})));
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

TEST_F(CheckpointMultirankTest, RejectsOptimizersThatItDoesNotKnow) {
  torch::nn::Linear net(3, 2), other(3, 2);
  CheckpointState state;
  torch::optim::Adam of_other(other->parameters());
  EXPECT_EQ(error_of<c10::ValueError>([&] { state.add_optimizer(of_other, *net); }),
            "CheckpointState: the optimizer has a parameter with sizes [2, 3] that the module does "
            "not have");
  struct Unknown : torch::optim::Optimizer {
    using Optimizer::Optimizer;
    at::Tensor step(LossClosure /*closure*/) override { return {}; }
  };
  Unknown unknown(net->parameters(), std::make_unique<torch::optim::SGDOptions>(0.1));
  EXPECT_EQ(error_of<c10::TypeError>([&] { state.add_optimizer(unknown, *net); }),
            "CheckpointState: the class of the optimizer is not supported; expected SGD, Adam, "
            "AdamW, RMSprop or Adagrad");
}

TEST_F(CheckpointMultirankTest, ASecondSaveToThePathThrowsOnAllItsRanks) {
  AsyncCheckpoint checkpoint;
  internal::FolderLock other;
  if (get_rank() == 0) other = internal::begin_checkpoint(path_);
  const std::string expected = "save_checkpoint: rank 0: another save to " + path_ +
                               " is in progress; wait until it ends, or save elsewhere";
  EXPECT_EQ(error_of([&] { save_checkpoint(path_, state_of(at::ones({4}))); }), expected);
  checkpoint.save(path_, state_of(at::ones({4})));
  EXPECT_EQ(error_of([&] { checkpoint.wait(); }), expected);
  other.release();
  save_checkpoint(path_, state_of(at::ones({4})));
  EXPECT_THAT(names_beside(), ElementsAre("last"));
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

// The last rank takes part in the collectives of a save, until the others write their files.
TEST_F(CheckpointMultirankTest, TheFirstRankRemovesItsFilesIfAPeerIsLost) {
  if (get_world_size() == 1) return;
  const Group group = new_group(first_ranks(get_world_size()));
  barrier({.group = group});
  if (get_rank() == get_world_size() - 1) {
    const std::vector<internal::PartFacts> none;
    all_gather_bytes("+" + path_ + '\0' + internal::text_of(none), group);
    broadcast_bytes("", GroupRank(0), group);
    destroy_process_group(group);
  } else {
    CheckpointState state;
    state.add("x", at::ones({4}));
    try {
      save_checkpoint(path_, state, {.process_group = group});
      EXPECT_NE(get_rank(), 0);  // Another rank may have sent its report.
    } catch (const c10::DistBackendError& error) {
      EXPECT_THAT(error.what_without_backtrace(), StartsWith("save_checkpoint to " + path_ + ": "));
    }
    if (get_rank() == 0) {
      EXPECT_THAT(names_beside(), ElementsAre());
    }
  }
  barrier();
}

TEST_F(CheckpointMultirankTest, TheErrorAfterALostPeerNamesTheLoad) {
  if (get_world_size() == 1) return;
  save_checkpoint(path_, state_of(at::ones({4})));
  const Group group = new_group(first_ranks(get_world_size()));
  barrier({.group = group});
  if (get_rank() != get_world_size() - 1) {
    CheckpointState state = state_of(at::zeros({4}));
    EXPECT_THAT(error_of<c10::DistBackendError>(
                    [&] { load_checkpoint(path_, state, {.process_group = group}); }),
                StartsWith("load_checkpoint from " + path_ + ": "));
  }
  abort_process_group(group);
  barrier();
}

// As on a full disk: a file of the last rank cannot grow.
TEST_F(CheckpointMultirankTest, IfARankCannotWriteAllThrowAndTheOldCheckpointRemains) {
  const at::Tensor old = at::ones({4});
  save_checkpoint(path_, state_of(old));
  const int last = get_world_size() - 1;
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &limit), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  if (get_rank() == last) {
    const rlimit small{.rlim_cur = 1000, .rlim_max = limit.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  }
  CheckpointState state;
  state.add_part({"y", {get_world_size(), 1000}, {get_rank(), 0}, at::zeros({1, 1000})});
  const std::string error = error_of([&] { save_checkpoint(path_, state); });
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_THAT(error, AllOf(HasSubstr("save_checkpoint: rank " + std::to_string(last) +
                                     ": cannot write " + path_ + ".unfinished/shard-"),
                           HasSubstr(": File too large")));
  EXPECT_THAT(names_beside(), ElementsAre("last"));
  const at::Tensor loaded = at::zeros({4});
  CheckpointState to_load = state_of(loaded);
  load_checkpoint(path_, to_load);
  EXPECT_TRUE(loaded.equal(old));
}

// Only the last rank reads the damaged part.
TEST_F(CheckpointMultirankTest, IfARankFindsADamagedFileAllThrow) {
  const int last = get_world_size() - 1;
  constexpr std::int64_t kElements = 1 << 19;  // 2 MiB, so that parts have their own blocks.
  const auto part = [&] {
    return CheckpointPart{
        "x", {get_world_size(), kElements}, {get_rank(), 0}, at::rand({1, kElements})};
  };
  CheckpointState saved;
  saved.add_part(part());
  save_checkpoint(path_, saved);
  if (get_rank() == last) {
    std::string name = std::to_string(last + 1);
    name =
        "/shard-" + std::string(5 - name.size(), '0') + name + "-model-00001-of-00001.safetensors";
    std::fstream file(path_ + name, std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(-1, std::ios::end);
    file.put('x');
  }
  barrier();
  CheckpointState loaded;
  loaded.add_part(part());
  EXPECT_THAT(error_of([&] { load_checkpoint(path_, loaded); }),
              AllOf(HasSubstr("load_checkpoint: rank " + std::to_string(last) + ": " + path_),
                    HasSubstr("is damaged: the checksum of bytes "),
                    HasSubstr("is wrong; load another checkpoint")));
}

TEST_F(CheckpointMultirankTest, AnErrorOnOneRankIsOneOnAll) {
  CheckpointState state;
  state.add("x", at::zeros({2 + get_rank()}));
  const std::string error = error_of<c10::ValueError>([&] { save_checkpoint(path_, state); });
  if (get_world_size() > 1) {
    EXPECT_THAT(error, HasSubstr("'x' has sizes [2] on rank 0 and [3] on rank 1"));
  }
  save_checkpoint(path_, state_of(at::zeros({2})));
  CheckpointState to_load;
  to_load.add(get_rank() == 0 ? "y" : "x", at::zeros({2}));
  EXPECT_EQ(error_of<c10::ValueError>([&] { load_checkpoint(path_, to_load); }),
            "load_checkpoint: rank 0: " + path_ + " has no 'y'");
}

TEST_F(CheckpointMultirankTest, ARankOutsideTheGroupCannotSave) {
  const Group first = new_group({0});
  if (first.is_member()) return;
  EXPECT_THAT(
      error_of([&] { save_checkpoint(path_, {}, {.process_group = first}); }),
      HasSubstr("a rank that is not in the group cannot save or load a checkpoint with it"));
}

// The program changes the tensors, and runs collectives, while they are saved.
TEST_F(CheckpointMultirankTest, AnAsynchronousSaveHasTheValuesOfItsCall) {
  AsyncCheckpoint checkpoint;
  const at::Tensor tensor = at::zeros({1 << 20});
  for (int step = 1; step <= 3; ++step) {
    tensor.fill_(step);
    checkpoint.save(path_, state_of(tensor));
    for (int i = 0; i < 20; ++i) {
      tensor.add_(1);
      at::Tensor sum = at::ones({1000});
      all_reduce(sum);
      ASSERT_EQ(sum[0].item<int>(), get_world_size());
    }
    checkpoint.wait();
    EXPECT_FALSE(checkpoint.is_saving());
    const at::Tensor loaded = at::zeros_like(tensor);
    CheckpointState state = state_of(loaded);
    load_checkpoint(path_, state);
    EXPECT_TRUE(loaded.eq(step).all().item<bool>());
    barrier();
  }
}

// The other ranks save later.
TEST_F(CheckpointMultirankTest, AnAsynchronousSaveReturnsBeforeItIsDone) {
  AsyncCheckpoint checkpoint;
  const auto save = [&] { checkpoint.save(path_, state_of(at::ones({4}))); };
  if (get_rank() == 0) {
    save();
    if (get_world_size() > 1) {
      EXPECT_TRUE(checkpoint.is_saving());
    }
  }
  rendezvous_at("rank 0 saves");
  if (get_rank() != 0) save();
  checkpoint.wait();
  const at::Tensor loaded = at::zeros({4});
  CheckpointState state = state_of(loaded);
  load_checkpoint(path_, state);
  EXPECT_TRUE(loaded.eq(1).all().item<bool>());
}

TEST_F(CheckpointMultirankTest, TheErrorOfAnAsynchronousSaveArrivesOnce) {
  AsyncCheckpoint checkpoint;
  if (get_rank() == 0) std::ofstream(path_) << "a file";
  barrier();
  checkpoint.save(path_, state_of(at::zeros({1})));
  EXPECT_THAT(error_of([&] { checkpoint.save(path_ + "2", state_of(at::zeros({1}))); }),
              HasSubstr("exists and is not a folder"));
  checkpoint.wait();
  EXPECT_FALSE(fs::exists(path_ + "2"));
}

}  // namespace
}  // namespace distrun
