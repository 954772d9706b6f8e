// Process groups and collectives for C++ programs, under the names they have in
// torch.distributed.
//
//     #include <ATen/Functions.h>
//     #include "backends/process_group.h"
//
//     distrun::init_process_group("gloo");               // once, by every rank
//     at::Tensor sum = at::ones({3});
//     distrun::all_reduce(sum);                          // {n, n, n} on n ranks
//     distrun::destroy_process_group();
//
// Started by `distrun launch` or torchrun, a program finds its rank, the world size
// and the store by itself (rendezvous.h).  Ranks written in C++ and in Python may
// meet in one group: keys and order of calls are those of torch.distributed 2.13
// (torch/distributed/distributed_c10d.py).
//
// A collective is called by every rank of the group, in the same order, with
// tensors of the same shape and dtype; it works in place and returns when the
// result is there.  Tensors are dense; for "gloo" they live in CPU memory.  They
// stay the caller's.
//
// Errors are exceptions of type c10::Error: a function called without a group, an
// argument that makes no sense.  A peer that is gone and a time-out are its subclass
// c10::DistBackendError, which names the collective and the rank; the group is of no
// use any more then.  what_without_backtrace() is the text for a user.  For this to hold,
// init_process_group() has the process ignore SIGPIPE, unless it handles it.
//
// Threads: init and destroy on one thread, with no collective under way; collectives
// from one thread at a time, for the order is what matches them.
#pragma once

#include <chrono>
#include <string>

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

namespace c10d {
class ProcessGroup;
}

namespace distrun {

// SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR; "gloo" has no AVG.
using c10d::ReduceOp;

struct InitOptions {
  std::string backend = "gloo";
  // Where the ranks meet: "env://" or "file:///absolute/path", as in Python.  Empty: as the
  // variable DISTRUN_INIT_METHOD says, which `distrun launch --store file:PATH` sets, or else
  // env://.
  std::string init_method = "";
  // How long the rendezvous and each collective may take.  The default is torch's.
  std::chrono::milliseconds timeout = std::chrono::minutes(30);
};

// Joins the group of all ranks, as the variables RANK and WORLD_SIZE, and those of the
// init_method (rendezvous.h), describe it.  Returns when every rank has come.  After
// destroy_process_group() it can be called again, by all ranks, also in the same file; the group
// has other keys in the store then, which ranks in Python do not know.
// Throws where a group exists already, the backend or the init_method is not known, a
// variable is missing or malformed, or the others do not come in time.
void init_process_group(const InitOptions& options = {});
void init_process_group(const std::string& backend);

// Leaves the group and frees it.  Requires that every rank has finished its
// collectives: end with barrier() where that is not certain.
void destroy_process_group();

bool is_initialized();

// The group itself, for its store and for collectives that have no function here: include
// <torch/csrc/distributed/c10d/ProcessGroup.hpp>.  It lives until destroy_process_group().
c10d::ProcessGroup& default_group();

// This rank's number, 0 … get_world_size() - 1.
int get_rank();
int get_world_size();

// Combines the tensors of all ranks element by element; every rank gets the result.
// Any shape; size zero and a world of one are fine.
void all_reduce(at::Tensor tensor, ReduceOp op = ReduceOp::SUM);

// Every rank gets the values that rank `src` has.
void broadcast(at::Tensor tensor, int src);

// Returns when every rank has called it.
void barrier();

}  // namespace distrun
