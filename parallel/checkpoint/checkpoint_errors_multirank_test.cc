// Checkpoints that cannot be saved or loaded: all ranks throw, and keep what they had.
#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <sys/resource.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adam.h>
#include <torch/optim/sgd.h>

#include "distrun/async_checkpoint.h"
#include "distrun/checkpoint.h"
#include "parallel/checkpoint/checkpoint_folder.h"
#include "parallel/checkpoint/folder_lock.h"
#include "parallel/checkpoint/save_plan.h"
#include "parallel/checkpoint/test/checkpoint_multirank_fixture.h"

namespace distrun {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class CheckpointErrorsMultirankTest : public CheckpointMultirankFixture {
 protected:
  std::vector<std::string> names_beside() const {
    std::vector<std::string> names;
    for (const auto& one : fs::directory_iterator(fs::path(path_).parent_path())) {
      names.push_back(one.path().filename().string());
    }
    return names;
  }
  static void damage_last_byte(const std::string& path) {
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(-1, std::ios::end);
    file.put('x');
  }
};

// A load that fails leaves the optimizer as it is.
TEST_F(CheckpointErrorsMultirankTest, AFailedLoadDoesNotChangeTheOptimizer) {
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
TEST_F(CheckpointErrorsMultirankTest, ALoadOfDamagedValuesLeavesNoStateInANewOptimizer) {
  torch::nn::Linear net(1024, 1024);
  torch::optim::SGD saved(net->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  net->forward(at::ones({1, 1024})).sum().backward();
  saved.step();
  save_checkpoint(path_, state_of(*net, saved));
  if (get_rank() == 0) {
    for (const auto& one : fs::directory_iterator(path_)) {
      if (fs::file_size(one.path()) >= 2 << 20) damage_last_byte(one.path());
    }
  }
  barrier();
  torch::optim::SGD fresh(net->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  CheckpointState state = state_of(*net, fresh);
  EXPECT_THAT(error_of([&] { load_checkpoint(path_, state); }),
              HasSubstr("is damaged: the checksum of bytes "));
  EXPECT_TRUE(fresh.state().empty());
}

TEST_F(CheckpointErrorsMultirankTest, ErrorsOfASubgroupNameGlobalRanks) {
  if (get_world_size() < 3) return;
  const Group group = new_group({1, 2});
  if (!group.is_member()) return;
  CheckpointState state = state_of(at::zeros({2 + get_rank()}));
  EXPECT_EQ(
      error_of<c10::ValueError>([&] { save_checkpoint(path_, state, {.process_group = group}); }),
      "save_checkpoint: 'x' has sizes [3] on rank 1 and [4] on rank 2; expected the same "
      "sizes");
}

TEST_F(CheckpointErrorsMultirankTest, RanksThatPassDifferentPathsThrow) {
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
TEST_F(CheckpointErrorsMultirankTest, AnErrorOfTheStateOnOneRankIsOneOnAll) {
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

TEST_F(CheckpointErrorsMultirankTest, RejectsOptimizersThatItDoesNotKnow) {
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

TEST_F(CheckpointErrorsMultirankTest, ASecondSaveToThePathThrowsOnAllItsRanks) {
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

// The last rank takes part in the collectives of a save, until the others write their files.
TEST_F(CheckpointErrorsMultirankTest, TheFirstRankRemovesItsFilesIfAPeerIsLost) {
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

TEST_F(CheckpointErrorsMultirankTest, TheErrorAfterALostPeerNamesTheLoad) {
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
TEST_F(CheckpointErrorsMultirankTest, IfARankCannotWriteAllThrowAndTheOldCheckpointRemains) {
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
  EXPECT_TRUE(load(old).equal(old));
}

// Only the last rank reads the damaged part.
TEST_F(CheckpointErrorsMultirankTest, IfARankFindsADamagedFileAllThrow) {
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
    damage_last_byte(path_ + name);
  }
  barrier();
  CheckpointState loaded;
  loaded.add_part(part());
  EXPECT_THAT(error_of([&] { load_checkpoint(path_, loaded); }),
              AllOf(HasSubstr("load_checkpoint: rank " + std::to_string(last) + ": " + path_),
                    HasSubstr("is damaged: the checksum of bytes "),
                    HasSubstr("is wrong; load another checkpoint")));
}

TEST_F(CheckpointErrorsMultirankTest, AnErrorOnOneRankIsOneOnAll) {
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

TEST_F(CheckpointErrorsMultirankTest, ARankOutsideTheGroupCannotSave) {
  const Group first = new_group({0});
  if (first.is_member()) return;
  EXPECT_THAT(
      error_of([&] { save_checkpoint(path_, {}, {.process_group = first}); }),
      HasSubstr("a rank that is not in the group cannot save or load a checkpoint with it"));
}

}  // namespace
}  // namespace distrun
