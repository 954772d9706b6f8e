// The tensors of a CheckpointState, with those of its optimizers.
//
//     const CheckpointState all = state_to_save(state);
//
// An optimizer makes its tensors in its first step, so they are looked up when a checkpoint is
// saved or loaded.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <torch/optim/optimizer.h>

#include "distrun/checkpoint.h"
#include "parallel/checkpoint/tensor_place.h"

namespace distrun::internal {

struct AddedOptimizer {
  torch::optim::Optimizer* optimizer = nullptr;
  std::string prefix;
  std::vector<TensorPlace> places;  // Of its parameters.
};

struct CheckpointAccess {
  static const std::vector<std::shared_ptr<const AddedOptimizer>>& optimizers(
      const CheckpointState& state) {
    return state.optimizers_;
  }
};

// With the tensors that the optimizers have now.
CheckpointState state_to_save(const CheckpointState& state);

// With tensors for what the checkpoint has of the optimizers. Creates them if they are missing.
// Call finish() after loading: until then, the optimizers do not have the new tensors. Without it,
// the destructor removes what was created.
struct StateToLoad {
  CheckpointState state;
  std::vector<std::function<void()>> at_end, undo;

  StateToLoad() = default;
  explicit StateToLoad(const CheckpointState& its_state) : state(its_state) {}
  StateToLoad(StateToLoad&&) = default;
  StateToLoad& operator=(StateToLoad&&) = default;
  ~StateToLoad() {
    for (const auto& act : undo) act();
  }
  void finish() {
    undo.clear();
    for (const auto& act : at_end) act();
  }
};
StateToLoad state_to_load(const CheckpointState& state,
                          const std::function<bool(const std::string&)>& has);

// save_checkpoint() of the state that `make` returns. All ranks throw the error of any.
void save_state(const std::string& path, const std::function<CheckpointState()>& make,
                const Group& group);

}  // namespace distrun::internal
