// Process groups: the ranks that run collectives together, as in torch.distributed.
//
//     #include <ATen/Functions.h>
//     #include "distrun/collectives.h"
//     #include "distrun/process_group.h"
//
//     distrun::init_process_group("gloo");               // Once, on every rank.
//     at::Tensor sum = at::ones({3});
//     distrun::all_reduce(sum);                          // {n, n, n} on n ranks.
//
//     distrun::Group low = distrun::new_group({0, 1});   // On every rank, including 2, 3, …
//     distrun::all_reduce(sum, distrun::ReduceOp::MAX, {.group = low});
//     distrun::destroy_process_group();
//
// A program started by `distrun launch` or torchrun needs no options: init_process_group() reads
// these variables, and the launchers set those that it needs:
//
//     RANK WORLD_SIZE                 this process's rank, and the number of ranks
//     DISTRUN_INIT_METHOD             the init_method, if the program names none.  `distrun launch`
//                                     sets it only with --store file:PATH.  Not set: env://
//     MASTER_ADDR MASTER_PORT         with env://: the address and port of the TCP store
//     TORCHELASTIC_USE_AGENT_STORE    with env://: True if the launcher hosts the store;
//                                     otherwise rank 0 hosts it
//
// With file:///absolute/path the ranks exchange their addresses through a file that all ranks can
// write.  When a run starts, the file must be empty or absent.  The ranks use it until they exit,
// and the last rank that exits removes it.  After a crash the file remains.  (`distrun launch
// --store file:PATH` removes a file that it created.)
//
// C++ ranks and Python ranks can share a group: distrun uses the same store keys as
// torch.distributed 2.13, and creates groups and backends in the same order as Python does.  Python
// does not read DISTRUN_INIT_METHOD, so pass its value:
//
//     dist.init_process_group("gloo", init_method=os.environ.get("DISTRUN_INIT_METHOD"),
//                             rank=int(os.environ["RANK"]),
//                             world_size=int(os.environ["WORLD_SIZE"]))
//
// The functions of this header throw c10::Errors, except that an exception of a backend's
// shutdown() or abort() passes unchanged.  what_without_backtrace() of a c10::Error returns the
// text to show to users.  Without init_process_group(), a function that takes a group throws a
// c10::Error if it is called for the default group.  So does communication in a destroyed group.
//
// Thread safety: create and destroy groups on one thread, while no other thread runs collectives.
// Query groups on any thread.
//
// PyTorch source: torch/distributed/distributed_c10d.py, torch/distributed/rendezvous.py.
#pragma once

#include <chrono>
#include <concepts>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "distrun/group.h"

namespace distrun {

// Options of init_process_group().
struct InitOptions {
  // The name of one backend, or a list with one backend for each kind of device:
  // "cpu:gloo,cuda:fake".  "gloo" and "fake" are built in.  Register others, such as "nccl", with
  // register_backend() (backend_registry.h).
  std::string backend = "gloo";
  // "env://" or "file:///absolute/path".  Empty: DISTRUN_INIT_METHOD, or else env://.
  std::string init_method = "";
  // The limit for the rendezvous and for each collective.  The default is PyTorch's for "gloo".
  std::chrono::milliseconds timeout = std::chrono::minutes(30);
  // The backend's options: c10d::ProcessGroupGloo::Options for "gloo", FakeOptions (fake_options.h)
  // for "fake".  Empty: the backend's defaults.  The group copies the options and sets the copy's
  // timeout to `timeout`.  Leave it empty if `backend` lists two backends, as in
  // "cpu:gloo,cuda:fake", because each backend rejects the options of the other.
  BackendOptions backend_options = {};
  // This process's rank.  Not set: the variable RANK.
  std::optional<int> rank = std::nullopt;
  // The number of ranks.  Not set: the variable WORLD_SIZE.
  std::optional<int> world_size = std::nullopt;
  // A store that all ranks use, in place of the store of `init_method`.  A c10d::HashStore, which
  // only one process can use, is sufficient for one rank and for "fake".  The store keeps its own
  // timeout.  If a store is set, `rank` and `world_size` must be set and `init_method` must be
  // empty.
  c10::intrusive_ptr<c10d::Store> store = {};
};

// Creates the default group, which has all ranks.  After destroy_process_group(), C++ ranks may
// call init_process_group() again, even with the same file:// path.  Python ranks cannot take part
// in that second group, because they do not know its store keys.
//
// With TORCH_DISTRIBUTED_DEBUG=DETAIL in the environment, ranks compare every call in every group
// before the call runs.  For a collective they compare the function, the sequence number, the
// reduce operation, the root, dtypes, sizes and splits.  For a send and its receive they compare
// the dtype and the number of elements.  If a value differs, every rank that takes part throws an
// error with both values.  The check requires a second set of connections.  In a group with Python
// ranks, all ranks make only PyTorch's own check, which compares the collective, sizes and dtypes.
//
// Blocks: until every rank has called it.  The backend "fake" (fake.h) does not block.
// Throws: c10::Error if the default group exists already, if a variable is missing or malformed, or
// if the other ranks do not join within the timeout; c10::ValueError for an unknown backend or
// init_method, or for options that contradict each other.  If the other ranks do not join, exit the
// process: a second call would read stale keys of the first call.
void init_process_group(const InitOptions& options = {});

// Does the same with the backend first: init_process_group("gloo", {.timeout = timeout}).
template <std::convertible_to<std::string> Text>
void init_process_group(const Text& backend, InitOptions options = {}) {
  options.backend = backend;
  init_process_group(std::as_const(options));
}

// Frees the default group and all other groups.  Call it when every rank has finished its
// collectives; if you are not sure, call barrier() first.  The connections of a group stay open
// while another object, such as a DistributedDataParallel, still uses them.
//
// Blocks: until collectives in progress on this rank end, at most the group's timeout.
// Throws: the exception of a backend's shutdown(), after everything is freed.
void destroy_process_group();
// If this rank is a member, frees the group, even if other Group objects still refer to it.
// Communication through these objects then throws.  If another member is still in new_group(), that
// call can throw, so call barrier() in the group first.  Connections may stay open, as above.
//
// Blocks: until collectives in progress on this rank end, at most the group's timeout.
// Throws: the exception of the backend's shutdown(), after the group is freed.
void destroy_process_group(const Group& group);

// Aborts this rank's collectives in every group: collectives in progress and later collectives
// throw.  For the peers, the connection to this rank is lost.  Use it on a rank that cannot
// continue.  destroy_process_group() then returns at once.  A recv() without a source rank is not
// aborted: it ends with the group's timeout.
//
// Thread safety: any thread, even while other threads wait for collectives, but not while groups
// are created or destroyed.
void abort_process_group();
// Does the same in one group, if this rank is a member.  Afterwards, destroy the group.
//
// Thread safety: as above.
void abort_process_group(const Group& group);

// Returns whether the default group exists.
bool is_initialized();

// Returns LibTorch's default group.  Use it to get the group's store, or to call functions that
// distrun does not have.  Include <torch/csrc/distributed/c10d/ProcessGroup.hpp>.  The reference is
// valid until destroy_process_group().
c10d::ProcessGroup& default_group();

// Returns this rank's number in the group, from 0; -1 if it is not a member.
int get_rank(const Group& group = {});
// Returns the number of ranks in the group; -1 if this rank is not a member, as in Python.
int get_world_size(const Group& group = {});
// Returns the backend as requested, in lower case: "gloo", "cpu:gloo,cuda:fake".
std::string get_backend(const Group& group = {});

// Returns the group's global ranks: element i is the global rank of group rank i.
std::vector<int> get_process_group_ranks(const Group& group = {});
// Converts a global rank to a group rank.
//
// Throws: c10::ValueError if the rank is not in the group.
int get_group_rank(const Group& group, int global_rank);
// Converts a group rank to a global rank.
//
// Throws: c10::ValueError if the rank is not in the group.
int get_global_rank(const Group& group, int group_rank);

// Sets the timeout of the group's future collectives on this rank.
//
// Throws: c10::ValueError unless the timeout is positive.
void set_timeout(std::chrono::milliseconds timeout, const Group& group = {});

// Options of the functions that create groups.
struct GroupOptions {
  // If true, only the members call new_group().  Two ranks that are both members of several such
  // groups must create these groups in the same order.
  bool use_local_synchronization = false;
  // Not set: the current timeout of the default group.  (In Python: the backend's default timeout.)
  std::optional<std::chrono::milliseconds> timeout = std::nullopt;
  // Empty: the backend of the default group.
  std::string backend = "";
  // The backend's options: see InitOptions::backend_options.
  BackendOptions backend_options = {};
  // The group's name in LibTorch's traces ("group_desc").
  std::string name = "undefined";
};

// Creates a group of these global ranks; std::nullopt means all ranks.  Group ranks follow the
// ascending order of the global ranks.  Every rank must call it, even a rank that is not a member,
// and all ranks must create groups in the same order.  With `use_local_synchronization`, only
// members call it.
//
// Blocks: on a member, until this rank has connected to all other members.  Other ranks return at
// once.
// Throws: c10::ValueError if a rank is out of range or listed twice, or if the list is empty.  If
// members do not join in time, the backend's exception, whose text then also contains the group's
// name and ranks.
Group new_group(std::optional<std::vector<int>> ranks = std::nullopt,
                const GroupOptions& options = {});
// Does the same for a list in braces: new_group({0, 1}).
Group new_group(std::initializer_list<int> ranks, const GroupOptions& options = {});

// The groups that ranks were divided into.
struct Subgroups {
  // The group that this rank is in, if any.
  std::optional<Group> own;
  // All groups, in order.
  std::vector<Group> all;
};

// Divides the ranks of `group` into groups of `group_size` consecutive ranks.  Every rank of the
// run must call it.
//
// Blocks: as new_group(), for the subgroup that this rank is in.
// Throws: c10::ValueError if `group_size` does not divide the number of ranks, and the exceptions
// of new_group().
Subgroups new_subgroups(int group_size, const Group& group = {}, const GroupOptions& options = {});

// Creates a group for each list of global ranks.  Every rank must call it.
//
// Blocks: as new_group(), for the subgroup that this rank is in.
// Throws: c10::ValueError if a rank is in two lists or there is no list, and the exceptions of
// new_group().
Subgroups new_subgroups_by_enumeration(const std::vector<std::vector<int>>& ranks,
                                       const GroupOptions& options = {});

}  // namespace distrun
