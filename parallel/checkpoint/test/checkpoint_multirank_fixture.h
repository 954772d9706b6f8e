// A folder for checkpoints that every rank of a run uses, and states to save.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <ATen/ops/zeros_like.h>
#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include "common/test/folder.h"
#include "distrun/checkpoint.h"
#include "parallel/fsdp/test/fsdp_multirank_fixture.h"

namespace distrun {

class CheckpointMultirankFixture : public FsdpMultirankTest {
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
  // The tensor that was saved with state_of(tensor).
  at::Tensor load(const at::Tensor& like) const {
    const at::Tensor loaded = at::zeros_like(like);
    CheckpointState state = state_of(loaded);
    load_checkpoint(path_, state);
    return loaded;
  }
  static std::vector<int> first_ranks(int count) {
    std::vector<int> ranks;
    for (int rank = 0; rank < count; ++rank) ranks.push_back(rank);
    return ranks;
  }

  std::unique_ptr<testing::Folder> folder_;
  std::string path_;
};

}  // namespace distrun
