// Checkpoints that AsyncCheckpoint saves while the program goes on, on every rank of a run.
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>

#include <gmock/gmock.h>

#include "distrun/async_checkpoint.h"
#include "distrun/checkpoint.h"
#include "parallel/checkpoint/test/checkpoint_multirank_fixture.h"

namespace distrun {
namespace {

using ::testing::HasSubstr;

class CheckpointAsyncMultirankTest : public CheckpointMultirankFixture {};

TEST_F(CheckpointAsyncMultirankTest, AnAsyncCheckpointNeedsItsGroup) {
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
  EXPECT_TRUE(load(at::zeros({4})).equal(at::ones({4})));  // The old one remains.
}

// The program changes the tensors, and runs collectives, while they are saved.
TEST_F(CheckpointAsyncMultirankTest, AnAsynchronousSaveHasTheValuesOfItsCall) {
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
    EXPECT_TRUE(load(tensor).eq(step).all().item<bool>());
    barrier();
  }
}

// The other ranks save later.
TEST_F(CheckpointAsyncMultirankTest, AnAsynchronousSaveReturnsBeforeItIsDone) {
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
  EXPECT_TRUE(load(at::zeros({4})).eq(1).all().item<bool>());
}

TEST_F(CheckpointAsyncMultirankTest, TheErrorOfAnAsynchronousSaveArrivesOnce) {
  AsyncCheckpoint checkpoint;
  if (get_rank() == 0) std::ofstream(path_) << "a file";
  barrier();
  checkpoint.save(path_, state_of(at::zeros({1})));
  EXPECT_THAT(error_of([&] { checkpoint.save(path_ + "2", state_of(at::zeros({1}))); }),
              HasSubstr("exists and is not a folder"));
  checkpoint.wait();
  EXPECT_FALSE(std::filesystem::exists(path_ + "2"));
}

}  // namespace
}  // namespace distrun
