// split_group() divides a group into groups, and shrink_group() leaves ranks out of a group.  Both
// work with every backend.  Only ranks of the group take part, unlike in new_group().
//
//     const Group half = split_group({{0, 1}, {2, 3}});      // On ranks 0 to 3.
//     all_reduce(tensor, ReduceOp::SUM, {.group = half});    // Ranks 0, 1 and ranks 2, 3.
//
// The numbers that you pass are group ranks of the divided group.  C++ ranks and Python ranks
// cannot share a group from these functions, because they name it differently.
//
// The functions throw the exceptions of new_group() (process_group.h).
//
// Thread safety: as new_group().
// PyTorch source: torch/distributed/distributed_c10d.py (split_group, shrink_group).
#pragma once

#include <vector>

#include "distrun/group.h"
#include "distrun/process_group.h"

namespace distrun {

// Creates a group for each list of group ranks of `parent`, and returns the one that this rank is
// in.  On a rank that is in no list, returns a Group for which is_member() is false.  Every rank of
// `parent` must call split_group() with the same lists.  The order of the ranks in a list does not
// matter.
//
// The groups have the backend and the timeout of `parent`, unless `options` has others.  If
// `options.backend` is set, it names backends of `parent` for some of its devices.
// `options.use_local_synchronization` is ignored.
//
// "nccl" splits the connections of `parent` if init_process_group() had a `device_id`.  Other
// groups connect anew.
//
// Blocks: on a member of a new group, until this rank has connected to its other members.
// Throws: c10::ValueError if `split_ranks` or one of its lists is empty, if a group rank is not in
// `parent` or is in two lists, or if `parent` has no such backend for a device.
// Also throws c10::Error if this rank is not in `parent`.
Group split_group(const std::vector<std::vector<int>>& split_ranks, const Group& parent = {},
                  const GroupOptions& options = {});

// Options of shrink_group().
struct ShrinkOptions {
  // If true, operations that are in progress in the group throw, as after abort_process_group().
  // Set it if an excluded rank has failed.  In Python: shrink_flags=SHRINK_ABORT.  If false, no
  // operation may be in progress.
  bool abort = false;
  // The options of the new group's backend, as in InitOptions::backend_options.
  BackendOptions backend_options = {};
};

// Replaces a group with a group of its other ranks, for example after `ranks_to_exclude` have
// failed.  Only the remaining ranks call shrink_group().  All of them pass the same ranks, which
// are group ranks.  The new group has the backend and the timeout of the old one, and the old one
// is destroyed.
//
//     group = shrink_group({2}, group, {.abort = true});  // Rank 2 has failed.
//
// If `group` is the default group, the new group becomes the default group.  The global ranks are
// then numbered anew from 0, in the same order, and all other groups are aborted and destroyed.
// get_rank() and get_world_size() return the new numbers, and the variables RANK and WORLD_SIZE
// keep the old ones.  Create objects that use a group, such as a DistributedDataParallel, again.
//
// The remaining ranks meet in the store.  Without a launcher, rank 0 hosts the store, and the
// process of rank 0 must not end before the others.  `distrun launch` and torchrun host the store,
// and end the run if a process fails.
//
// "nccl" shrinks its communicator if NCCL can, and other backends connect anew.  Python's
// shrink_group() needs a backend that can shrink.
//
// Blocks: until this rank has connected to all remaining ranks, and until the operations that are
// in progress in the old group have ended, at most the group's timeout.
// Throws: c10::ValueError if `ranks_to_exclude` is empty, names a rank twice, names a rank that is
// not in the group, names this rank, or names all ranks.
// Also throws c10::Error if this rank is not in the group.  If shrink_group() throws, the old group
// stays, but is aborted if `options.abort` is true.
// Cost: as new_group().
Group shrink_group(const std::vector<int>& ranks_to_exclude, const Group& group = {},
                   const ShrinkOptions& options = {});

}  // namespace distrun
