// AsyncCheckpoint saves checkpoints (checkpoint.h) while the program trains on.
//
//     AsyncCheckpoint checkpoint;                // On every rank.
//     for (int step = 0; step < steps; ++step) {
//       train();
//       if (step % 1000 == 0) {
//         CheckpointState state;
//         state.add_module(*net);
//         checkpoint.save("run/last", state);    // Returns when the tensors are copied.
//       }
//     }
//     checkpoint.wait();                         // Throws if the last one was not saved.
//
// Call wait() before you destroy or shrink a group, and before the program ends.  Collectives in
// other groups, and new groups, are possible while a save is in progress.
//
// Thread safety: one thread at a time.
// PyTorch source: torch/distributed/checkpoint/state_dict_saver.py (async_save).
#pragma once

#include <memory>
#include <string>

#include "distrun/checkpoint.h"
#include "distrun/group.h"

namespace distrun {

class AsyncCheckpoint {
 public:
  // Creates its own group with the ranks of `group`, so that the collectives of a save and
  // those of the program do not mix.  Every rank of `group` must call it.  If `group` has no
  // backend for CPU tensors, the new group uses "gloo".
  //
  // Blocks: as new_group().
  explicit AsyncCheckpoint(const Group& group = {});
  // Waits for the save in progress.  If the save fails, prints a warning.
  ~AsyncCheckpoint();
  AsyncCheckpoint(const AsyncCheckpoint&) = delete;
  AsyncCheckpoint& operator=(const AsyncCheckpoint&) = delete;

  // Copies the tensors of `state` to CPU memory, and starts a save_checkpoint() on another thread.
  //
  // Blocks: until the previous save has ended, and the tensors are copied.
  // Throws: the exception of the previous save, if no wait() has thrown it.  The new save has then
  // not started.  All ranks throw it in the same call.
  // Also throws c10::Error if this object was created before init_process_group().
  // Cost: memory for the copies, until the save has ended.
  void save(const std::string& path, const CheckpointState& state);

  // Waits until the save in progress has ended.
  //
  // Throws: the exceptions of save_checkpoint(), once.
  void wait();

  // Returns whether a save is in progress.
  bool is_saving() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace distrun
