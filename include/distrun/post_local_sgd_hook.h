// Post-local SGD reduces gradients among all ranks at first, and later only within small groups of
// ranks, such as those of one node.  A model averager then averages the parameters of all ranks
// from time to time, so most steps send nothing between nodes.
//
//     PostLocalSGDState state({.start_localSGD_iter = 100});  // Later, ranks of a node reduce.
//     ddp.register_comm_hook(state, post_localSGD_hook);
//     PeriodicModelAverager averager({.period = 4, .warmup_steps = 100});  // model_averager.h
//     for (…) {
//       optimizer.zero_grad();
//       loss(ddp(images), digits).backward();
//       optimizer.step();
//       averager.average_parameters(ddp.parameters());
//     }
//
// `warmup_steps` of the averager must be equal to `start_localSGD_iter`.
//
// PyTorch source: torch/distributed/algorithms/ddp_comm_hooks/post_localSGD_hook.py.  The algorithm
// is from https://arxiv.org/abs/1808.07217.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "distrun/comm_hook.h"
#include "distrun/group.h"

namespace torch::serialize {
class InputArchive;
class OutputArchive;
}  // namespace torch::serialize

namespace distrun {

// Options of PostLocalSGDState.
struct PostLocalSGDOptions {
  // The group of the first iterations, usually that of the DistributedDataParallel.
  Group process_group = {};

  // The group of the later iterations.  This rank must be a member.  If it is not set, the group is
  // the ranks of this node (LOCAL_WORLD_SIZE), and every rank of the run must construct the
  // PostLocalSGDState.
  std::optional<Group> subgroup = std::nullopt;

  // The number of iterations that reduce in `process_group`.
  std::int64_t start_localSGD_iter = 0;

  // Whether the later iterations reduce in `subgroup`.  If it is false, they do not reduce.
  bool post_local_gradient_allreduce = true;
};

// PostLocalSGDState is the state of post_localSGD_hook().  Copies refer to the same state.  Use a
// state for one DistributedDataParallel.
//
// Thread safety: one thread at a time.  Do not use a state while backward() runs.
class PostLocalSGDState {
  enum class NoOption {};

 public:
  // Creates a state.  If `subgroup` is not set and `post_local_gradient_allreduce` is true, also
  // creates a group for each node.
  //
  // Blocks: as new_subgroups(), if it creates groups.
  // Throws: the exceptions of new_subgroups(), if it creates groups.
  // Also throws c10::ValueError if it needs LOCAL_WORLD_SIZE, and the variable is not set or is not
  // a number above 0.
  explicit PostLocalSGDState(PostLocalSGDOptions options = {});
  // Creates a state with the default options, so that PostLocalSGDState({}) is not ambiguous.
  explicit PostLocalSGDState(NoOption /*none*/) : PostLocalSGDState() {}

  // Returns the options.  `subgroup` is set if the state has created it.
  const PostLocalSGDOptions& options() const;

  // Returns the number of iterations that have reduced in `process_group`.  It does not grow beyond
  // `start_localSGD_iter`.
  std::int64_t iter() const;

  // Saves iter().
  void save(torch::serialize::OutputArchive& archive) const;
  // Continues at the saved iteration.
  //
  // Throws: c10::Error if the archive does not contain a PostLocalSGDState, or is damaged.
  void load(torch::serialize::InputArchive& archive);

  struct Data;
  // Only distrun calls this function.
  Data& data() const { return *data_; }

 private:
  std::shared_ptr<Data> data_;
};

// Saves a state, so that torch::save(state, "state.pt") works.
torch::serialize::OutputArchive& operator<<(torch::serialize::OutputArchive& archive,
                                            const PostLocalSGDState& state);
// Loads a state, so that torch::load(state, "state.pt") works.
torch::serialize::InputArchive& operator>>(torch::serialize::InputArchive& archive,
                                           PostLocalSGDState& state);

// Computes the mean of the gradients, in the group that PostLocalSGDOptions describes.
//
// Throws: as the hooks in comm_hooks.h.
// Cost: one all_reduce of the bucket, or nothing.
Future post_localSGD_hook(const PostLocalSGDState& state, c10d::GradBucket& bucket);

}  // namespace distrun
