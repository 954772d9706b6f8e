// Process groups, as in torch.distributed.  A process group is a set of ranks that run collectives
// together.  The ranks of a group are its members.  The default group has all ranks of the run.
//
//     #include <ATen/Functions.h>
//     #include "distrun/collectives.h"
//     #include "distrun/process_group.h"
//
//     distrun::init_process_group("gloo");               // Once, on every rank.
//     at::Tensor sum = at::ones({3});
//     distrun::all_reduce(sum);                          // {n, n, n} on n ranks.
//
//     distrun::Group low = distrun::new_group({0, 1});   // On every rank, not only on 0 and 1.
//     if (low.is_member()) distrun::all_reduce(sum, distrun::ReduceOp::MAX, {.group = low});
//     distrun::destroy_process_group();
//
// Ranks find each other through a store.  The init_method determines the store.  With env://, the
// store is a TCP server, whose address is in variables.  With tcp://HOST:PORT, it is a TCP server
// at this address.  With file:///absolute/path, the store is a file that all ranks can write.
//
// A program that `distrun launch` or torchrun starts needs no options.  init_process_group() reads
// these environment variables, and the launcher sets the variables that the program needs:
//
//     RANK, WORLD_SIZE                this process's rank, and the number of ranks
//     DISTRUN_INIT_METHOD             the init_method, if the program names none.  `distrun launch`
//                                     sets it only with --store file:PATH.  If the variable is not
//                                     set, the init_method is env://
//     MASTER_ADDR, MASTER_PORT        with env://: the host and the port of the TCP store
//     TORCHELASTIC_USE_AGENT_STORE    with env://: True if the launcher hosts the store.  If the
//                                     variable has another value, rank 0 hosts the store
//
// With tcp://, rank 0 hosts the store, so HOST is the machine of rank 0.  If the launcher hosts a
// store and MASTER_PORT is PORT, all ranks use the launcher's store.  The IPv6 address ::1 is
// written
// [::1].  An init_method can end in the rank and the number of ranks:
//
//     tcp://10.1.1.20:23456?rank=0&world_size=4
//
// With file://, the file must be empty or absent when the run starts.  The ranks use the file until
// they exit, and the last rank that exits removes it.  After a crash the file remains, but
// `distrun launch --store file:PATH` removes a file that it created.
//
// C++ ranks and Python ranks can share a group, because distrun uses the store keys of
// torch.distributed 2.13 and creates groups and backends in the same order.  Python does not read
// DISTRUN_INIT_METHOD, so pass its value in Python:
//
//     dist.init_process_group("gloo", init_method=os.environ.get("DISTRUN_INIT_METHOD"),
//                             rank=int(os.environ["RANK"]),
//                             world_size=int(os.environ["WORLD_SIZE"]))
//
// The functions of this header throw c10::Error or a class derived from it.  The exceptions of a
// backend's shutdown() or abort() can have other types.  To show an error to users, call
// what_without_backtrace() of the c10::Error.  If no default group exists, functions that use the
// default group throw c10::Error.  Communication in a destroyed group also throws c10::Error.
//
// Thread safety: create and destroy groups on one thread, while no other thread runs collectives.
// Query groups on any thread.
// PyTorch source: torch/distributed/distributed_c10d.py, torch/distributed/rendezvous.py.
#pragma once

#include <chrono>
#include <concepts>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <c10/core/Device.h>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "distrun/group.h"

namespace distrun {

// Options of init_process_group().
struct InitOptions {
  // The name of one backend, such as "gloo", or a list with one backend for each kind of device,
  // such as "cpu:gloo,cuda:nccl".  "gloo", "shm", "auto" and "fake" are built in, and so is "nccl"
  // if distrun was built with a CUDA build of LibTorch.  "shm" is for CPU tensors: ranks that
  // share a host communicate through shared memory, much faster than with "gloo", and the hosts
  // communicate over Gloo (docs/shm.md).  "auto" is for CPU tensors: it uses "gloo" for a group in
  // which no two ranks share a host, and "shm" for other groups.  A program can register other
  // backends with register_backend() (backend_registry.h).
  std::string backend = "gloo";
  // "env://", "tcp://HOST:PORT" or "file:///absolute/path".  If `init_method` is empty, the value
  // of DISTRUN_INIT_METHOD is used.  If this variable is not set either, env:// is used.
  std::string init_method = "";
  // The time limit for the rendezvous and for each collective.  If it is not set, PyTorch's default
  // is used: 10 minutes for "nccl", and 30 minutes for all other backends and lists.
  std::optional<std::chrono::milliseconds> timeout = std::nullopt;
  // The backend's options.  For "gloo", pass c10d::ProcessGroupGloo::Options.  For "fake", pass
  // FakeOptions (fake_options.h).  For "nccl", pass NcclOptions (nccl_options.h).  If
  // `backend_options` is empty, the backend uses its defaults.  The group copies the options and
  // sets the timeout of the copy to `timeout`.  If `backend` lists two of these backends, leave
  // `backend_options` empty, because each backend rejects the options of another.
  BackendOptions backend_options = {};
  // The rank of this process.  If it is not set, the rank in `init_method` or the variable RANK is
  // used.
  std::optional<int> rank = std::nullopt;
  // The number of ranks.  If it is not set, the world_size in `init_method` or the variable
  // WORLD_SIZE is used.
  std::optional<int> world_size = std::nullopt;
  // A store that all ranks use instead of the store of `init_method`.  If `store` is set, `rank`
  // and `world_size` must be set too, and `init_method` must be empty.  If the group has one rank
  // or the backend "fake", the store can be a c10d::HashStore, which only one process can use.
  // `timeout` does not change the timeout of this store.
  c10::intrusive_ptr<c10d::Store> store = {};
  // The GPU of this rank, such as at::Device(at::kCUDA, 1).  If it is set, init_process_group()
  // selects this GPU, and "nccl" connects at once instead of in the first collective.  Errors of
  // NCCL then show early.  new_group() of an "nccl" group then splits the connections of the
  // default group, which is faster, and connects at once, too.
  std::optional<c10::Device> device_id = std::nullopt;
};

// Creates the default group.  After destroy_process_group(), C++ ranks can call this function
// again, and pass the same file:// path again.  Python ranks cannot join the second default group,
// because they do not know its store keys.
//
// If the environment has TORCH_DISTRIBUTED_DEBUG=DETAIL, ranks compare every call in every group
// before the call runs.  For a collective, they compare the function, the sequence number, the
// reduce operation, the root, dtypes, sizes and splits.  For a send and its receive, they compare
// the dtype and the number of elements.  If a value differs, every rank that takes part in the call
// throws an error that shows the different values.  In a group with Python ranks, all ranks make
// only PyTorch's own check, which compares the collective, sizes and dtypes.
//
// Blocks: until every rank has called init_process_group().  With the backend "fake" (fake.h), the
// call returns at once.
// Throws: c10::Error if the default group exists already, or if a variable is missing or malformed.
// Also throws c10::Error if the other ranks do not join within the timeout.  In this case, exit the
// process, because a second call would read keys that the first call has left in the store.
// Also throws c10::ValueError if the backend or the init_method is unknown, or if options
// contradict each other.  This includes a `device_id` without an index, on the CPU, or on a kind of
// device for which the group has no backend.
// Also throws c10::TypeError if `backend_options` are the options of another backend.
// Cost: a "gloo" group with default options starts three threads on each rank and opens a
// connection to every other rank.  With env://, each process also has one connection to the store.
// With TORCH_DISTRIBUTED_DEBUG=DETAIL, a group has twice as many threads and connections.  Each
// collective then first runs a monitored_barrier() and an all_gather() of 16 bytes.  Therefore,
// even a collective with `async_op` blocks until every rank of the group has called it.
void init_process_group(const InitOptions& options = {});

// Does the same with the backend as the first argument, as in
// init_process_group("gloo", {.timeout = timeout}).
template <std::convertible_to<std::string> Text>
void init_process_group(const Text& backend, InitOptions options = {}) {
  options.backend = backend;
  init_process_group(std::as_const(options));
}

// Frees the default group and all other groups.  Call destroy_process_group() after every rank has
// finished its collectives.  If a rank may still run a collective, call barrier() first.  If
// another object, such as a DistributedDataParallel, still uses a group, the group's connections
// stay open.
//
// Blocks: until the collectives that are in progress on this rank have ended, at most the group's
// timeout.
// Throws: the exception of a backend's shutdown().  At that time, all groups are already freed.
void destroy_process_group();
// Frees the group if this rank is a member, even if other Group objects still refer to the group.
// Communication through these objects then throws.  Call barrier() in the group first.  Otherwise,
// a member that is still in new_group() can lose its connection to this rank, and new_group() then
// throws there.  For the default group, this function does the same as destroy_process_group()
// without an argument.
//
// Blocks: until the collectives that are in progress on this rank have ended, at most the group's
// timeout.
// Throws: the exception of the backend's shutdown().  At that time, the group is already freed.
void destroy_process_group(const Group& group);

// Aborts this rank's collectives in every group.  Collectives that are in progress throw, and so do
// later collectives.  The other ranks lose the connection to this rank.  Call abort_process_group()
// on a rank that cannot continue.  After that, destroy_process_group() returns at once.  A recv()
// without a source rank is not aborted.  It lasts until it gets a tensor, or until the group's
// timeout.
//
// Thread safety: any thread may call it, even while other threads wait for collectives.  Do not
// call it while a thread creates or destroys groups.
void abort_process_group();
// Does the same in one group, if this rank is a member.  For the default group, aborts all groups.
// To free an aborted group, call destroy_process_group(group).
//
// Thread safety: as for abort_process_group() without an argument.
void abort_process_group(const Group& group);

// Returns whether the default group exists.
bool is_initialized();

// Returns LibTorch's object of the default group.  Use it, for example, to get the store or to call
// a function that distrun does not have.  Include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
// for this.  The reference is valid until destroy_process_group().
c10d::ProcessGroup& default_group();

// Returns the rank of this process in the group, from 0.  If this process is not a member, returns
// -1.
int get_rank(const Group& group = {});
// Returns the number of ranks in the group.  If this process is not a member, returns -1, as in
// Python.
int get_world_size(const Group& group = {});
// Returns the backend with which the group was created, in lower case, such as "gloo" or
// "cpu:gloo,cuda:fake".
std::string get_backend(const Group& group = {});

// Returns the backend of each kind of device, such as "cpu:gloo,cuda:gloo" for a group that was
// created with "gloo".
std::string get_backend_config(const Group& group = {});

// Returns the global ranks of the members.  Element i is the global rank of group rank i.
std::vector<int> get_process_group_ranks(const Group& group = {});
// Converts a global rank to a group rank.
//
// Throws: c10::ValueError if the global rank is not in the group.
int get_group_rank(const Group& group, int global_rank);
// Converts a group rank to a global rank.
//
// Throws: c10::ValueError if the group has no such group rank.
int get_global_rank(const Group& group, int group_rank);

// Returns the number of this process on its machine, from 0, which the launcher passes in
// LOCAL_RANK.  Use it, for example, to choose a GPU.  No group is needed.  If LOCAL_RANK is not
// set, returns `fallback_rank`.
//
// Throws: c10::Error if LOCAL_RANK is malformed, or if it is not set and there is no
// `fallback_rank`.
int get_node_local_rank(std::optional<int> fallback_rank = std::nullopt);
// Returns whether `distrun launch`, torchrun or another launcher of torchelastic started this
// process: whether TORCHELASTIC_RUN_ID is set.
bool is_torchelastic_launched();

// Sets the timeout of the group's later collectives on this rank.
//
// Throws: c10::ValueError if the timeout is not positive.
// Also throws c10::Error if this rank is not a member.
void set_timeout(std::chrono::milliseconds timeout, const Group& group = {});

// Options of the functions that create groups.
struct GroupOptions {
  // If true, only the members call new_group().  If two ranks share several such groups, both must
  // create these groups in the same order.  C++ ranks and Python ranks cannot share such a group.
  bool use_local_synchronization = false;
  // The time limit for the creation of the group and for each collective.  If `timeout` is not set,
  // the current timeout of the default group applies.  (In Python, the backend's default applies.)
  std::optional<std::chrono::milliseconds> timeout = std::nullopt;
  // The backend, as in InitOptions::backend.  If `backend` is empty, the backend of the default
  // group is used.
  std::string backend = "";
  // The backend's options, as in InitOptions::backend_options.
  BackendOptions backend_options = {};
  // The group's name in LibTorch's traces ("group_desc").
  std::string name = "undefined";
};

// Creates a group of these global ranks, or of all ranks if `ranks` is std::nullopt.  The group
// ranks are in the ascending order of the global ranks.  Every rank of the run, even one that is
// not in `ranks`, must make the same new_group() calls in the same order.  With
// `use_local_synchronization`, only the members call new_group().
//
// Blocks: on a member, until this rank has connected to all other members.  On other ranks,
// new_group() returns at once.
// Throws: c10::ValueError if a rank is out of range or is listed twice, or if the list is empty.
// Also throws the backend's exception if members do not join in time.  The text then shows the
// group's name and ranks.
// Cost: as init_process_group(), but the group uses the store of the default group.  Ranks outside
// the group start no threads and open no connections.
Group new_group(std::optional<std::vector<int>> ranks = std::nullopt,
                const GroupOptions& options = {});
// Does the same for a list of ranks in braces, as in new_group({0, 1}).
Group new_group(std::initializer_list<int> ranks, const GroupOptions& options = {});

// The result of new_subgroups() and new_subgroups_by_enumeration().
struct Subgroups {
  // The subgroup that this rank is in, if there is one.
  std::optional<Group> own;
  // All subgroups, in the order of their creation.
  std::vector<Group> all;
};

// Divides the ranks of `group` into subgroups of `group_size` consecutive ranks.  Every rank of the
// run must call new_subgroups().
//
// Blocks: as new_group(), for the subgroup that this rank is in.
// Throws: c10::ValueError if `group_size` does not divide the number of ranks in `group`.
// Also throws the exceptions of new_group().
Subgroups new_subgroups(int group_size, const Group& group = {}, const GroupOptions& options = {});

// Creates a subgroup for each list of global ranks.  Every rank of the run must call
// new_subgroups_by_enumeration().
//
// Blocks: as new_group(), for the subgroup that this rank is in.
// Throws: c10::ValueError if a rank is in two lists, or if `ranks` has no list.
// Also throws the exceptions of new_group().
Subgroups new_subgroups_by_enumeration(const std::vector<std::vector<int>>& ranks,
                                       const GroupOptions& options = {});

}  // namespace distrun
