// Process groups for C++ programs, under the names they have in torch.distributed.
//
//     #include <ATen/Functions.h>
//     #include "distrun/collectives.h"
//     #include "distrun/process_group.h"
//
//     distrun::init_process_group("gloo");               // once, by every rank
//     at::Tensor sum = at::ones({3});
//     distrun::all_reduce(sum);                          // {n, n, n} on n ranks
//
//     distrun::Group low = distrun::new_group({0, 1});   // by every rank, also by 2, 3, …
//     distrun::all_reduce(sum, distrun::ReduceOp::MAX, {.group = low});
//     distrun::destroy_process_group();
//
// Started by `distrun launch` or torchrun, a program finds its rank, the world size and the store
// by itself, by environment variables that these set:
//
//     RANK WORLD_SIZE                 who this is, and how many there are
//     DISTRUN_INIT_METHOD             the init_method, where the program names none
//
// With env://, and without any init_method, ranks meet in a TCP store:
//
//     MASTER_ADDR MASTER_PORT         where the store listens
//     TORCHELASTIC_USE_AGENT_STORE    True: the launcher hosts the store, every rank is
//                                     its client; otherwise rank 0 hosts it
//
// With file:///absolute/path they meet in a file that all ranks can write.  For every run it must
// be empty or not exist yet.  It stays in use until the process ends: the last rank that ends well
// removes it.  After a crash it stays, unless the launcher made it (`distrun launch --store
// file:PATH`), which removes it in any case.
//
// Ranks written in C++ and in Python may meet in one group: keys and order of calls are those of
// torch.distributed 2.13 (torch/distributed/distributed_c10d.py, rendezvous.py).  Python does not
// know DISTRUN_INIT_METHOD; hand it over:
//
//     dist.init_process_group("gloo", init_method=os.environ.get("DISTRUN_INIT_METHOD"),
//                             rank=int(os.environ["RANK"]),
//                             world_size=int(os.environ["WORLD_SIZE"]))
//
// Errors are exceptions of type c10::Error: a function called without a group, an argument that
// makes no sense (its subclass c10::ValueError).  what_without_backtrace() is the text for a user.
//
// Threads: the functions that make and destroy groups are called on one thread, with no collective
// under way; what only asks, on any.
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

struct InitOptions {
  // One that is built in or registered (backend_registry.h), for all of its devices, or one for
  // each kind of device: "cpu:gloo,cuda:fake".  "nccl" is not built in: register it.
  std::string backend = "gloo";
  // Where the ranks meet: "env://" or "file:///absolute/path", as in Python.  Empty: as the
  // variable DISTRUN_INIT_METHOD says, which `distrun launch --store file:PATH` sets, or else
  // env://.
  std::string init_method = "";
  // How long the rendezvous and each collective may take.  The default is torch's.
  std::chrono::milliseconds timeout = std::chrono::minutes(30);
  // The backend's own, c10d::ProcessGroupGloo::Options for "gloo", FakeOptions (fake_options.h) for
  // "fake"; none: its defaults.  Their timeout is the one above.  Both copy them: groups may be
  // made from the same.  "cpu:gloo,cuda:fake" takes none: they would be handed to both, and each of
  // these two refuses the other's.
  BackendOptions backend_options = {};
  // Who this process is, and of how many.  Not given: as the variables RANK and WORLD_SIZE say.
  std::optional<int> rank = std::nullopt;
  std::optional<int> world_size = std::nullopt;
  // Where the ranks meet, if they have a store already, c10d::HashStore or another: then there is
  // no init_method, and rank and world_size are required.  Its own timeout stays.
  c10::intrusive_ptr<c10d::Store> store = {};
};

// Joins the group of all ranks, as the options, the variables RANK and WORLD_SIZE, and those of the
// init_method, describe it.  Returns when every rank has come; with "fake" (fake.h)
// at once: it waits for no other rank, also where a store or an init_method is given.  After
// destroy_process_group() it can be called again, by all ranks, also in the same file; the group
// has other keys in the store then, which ranks in Python do not know.
//
// With TORCH_DISTRIBUTED_DEBUG=DETAIL in the environment every call, of this group and of others,
// is first compared between ranks: the function, how many were called before, the reduce op, the
// root, dtypes, sizes and splits; of a send and its receive the dtype and the number of elements. A
// difference is an error on every rank that takes part, with both values.  That costs a second
// group of connections.  A group with ranks in Python has Python's check
// (c10d::ProcessGroupWrapper): names of collectives, sizes and dtypes.
//
// Throws where a group exists already, the backend or the init_method is not known, a
// variable is missing or malformed, or the others do not come in time; c10::ValueError where rank,
// world_size, store and init_method make no sense together.  If the others time out, end the run:
// a second attempt would find the keys that this rank left.
void init_process_group(const InitOptions& options = {});

// The same, with the backend first: init_process_group("gloo", {.timeout =
// std::chrono::minutes(1)}).
template <std::convertible_to<std::string> Text>
void init_process_group(const Text& backend, InitOptions options = {}) {
  options.backend = backend;
  init_process_group(std::as_const(options));
}

// Leaves the default group and frees it, and every other.  Requires that every rank has finished
// its collectives: end with barrier() where that is not certain.  One that is under way is waited
// for, up to the group's timeout.  What still has LibTorch's own group, as a
// DistributedDataParallel has, keeps its connections until it is gone.  What a backend's shutdown()
// throws is thrown when all has been freed.
void destroy_process_group();
// Leaves that group, if this rank is in it, and frees it.  Peers still in new_group() get an error.
void destroy_process_group(const Group& group);

// Ends the collectives that are under way, in every group, with an error, and makes those to come
// fail, on this rank; other ranks see a peer that is gone.  For a rank that has found that it
// cannot go on: destroy_process_group() then has nothing to wait for.  A receive from any rank is
// not ended: it has the group's timeout.
//
// On any thread, also while others wait for collectives; not while groups are made or destroyed.
void abort_process_group();
// The same in that group.  It is of no use any more: destroy it.  Nothing where this rank is not in
// it.
void abort_process_group(const Group& group);

bool is_initialized();

// The default group itself, for its store and for what has no function here: include
// <torch/csrc/distributed/c10d/ProcessGroup.hpp>.  It lives until destroy_process_group().
c10d::ProcessGroup& default_group();

// This rank's number within the group, 0 … get_world_size(group) - 1; -1 where it is not in it.
int get_rank(const Group& group = {});
// How many ranks the group has; -1 where this rank is not in it, as in Python.
int get_world_size(const Group& group = {});
// "gloo", or "cpu:gloo,cuda:fake": as it was asked for, in lower case.
std::string get_backend(const Group& group = {});

// The global ranks of the group, by group rank.
std::vector<int> get_process_group_ranks(const Group& group = {});
// From a global rank to that within the group, and back.  Throw where there is no such rank.
int get_group_rank(const Group& group, int global_rank);
int get_global_rank(const Group& group, int group_rank);

// How long each collective of the group may take from now on, on this rank.
void set_timeout(std::chrono::milliseconds timeout, const Group& group = {});

struct GroupOptions {
  // Only the group's members call new_group(), and only they wait for each other.  Each of them
  // makes its groups in the same order, as far as they have ranks in common.
  bool use_local_synchronization = false;
  // Not given: the one that the default group has then.  (In Python: half an hour, whatever the
  // default group has.)
  std::optional<std::chrono::milliseconds> timeout = std::nullopt;
  // Empty: the default group's.
  std::string backend = "";
  BackendOptions backend_options = {};
  // What LibTorch's traces call it ("group_desc" there).
  std::string name = "undefined";
};

// A group of these global ranks, in ascending order; nothing: all.  Every rank calls it, also one
// that is not in the group, in the same order as its other groups, unless
// use_local_synchronization.  Returns when the members have met.
//
// Throws c10::ValueError where a rank is not one of the default group's, or is there twice, or the
// list is empty; and where the others do not come in time what the backend throws, with the
// group's number and ranks: ranks that make different groups see there who has made which.
Group new_group(std::optional<std::vector<int>> ranks = std::nullopt,
                const GroupOptions& options = {});
// new_group({0, 1})
Group new_group(std::initializer_list<int> ranks, const GroupOptions& options = {});

// The groups that ranks were divided into, and the one that this rank is in, if it is in one.
struct Subgroups {
  std::optional<Group> own;
  std::vector<Group> all;
};

// Divides the ranks of `group` into groups of `group_size`, neighbours together.  Called by every
// rank.  Throws c10::ValueError where the ranks do not divide evenly.
Subgroups new_subgroups(int group_size, const Group& group = {}, const GroupOptions& options = {});

// Groups of these global ranks.  Called by every rank.  Throws c10::ValueError where two of them
// have a rank in common, or there are none.
Subgroups new_subgroups_by_enumeration(const std::vector<std::vector<int>>& ranks,
                                       const GroupOptions& options = {});

}  // namespace distrun
