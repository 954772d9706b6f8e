// Collectives, under the names and with the meanings that they have in torch.distributed
// (torch/distributed/distributed_c10d.py).
//
//     all_reduce(tensor);                                              // all ranks, the sum
//     all_reduce(tensor, ReduceOp::MAX, {.group = pair});              // the ranks of a group
//     Work work = broadcast(tensor, /*src=*/0, {.async_op = true});    // returns at once
//     work.wait();
//
// A collective is called by every rank of the group, in the same order, with tensors of the same
// shapes and dtype; all_to_all_single and sparse tensors apart.  It returns when the result is
// there, or with `async_op` at once, with a Work to wait for.  Tensors stay the caller's; outputs
// are written in place, and have to be there with their sizes.  Where a function names a rank, an
// int is a global one and GroupRank(n) the group's own.
//
// Tensors are dense and lie on a device that the group has a backend for: with "gloo" on the CPU,
// or on a GPU by way of the CPU, but for all_reduce_coalesced, all_gather_coalesced, send and recv,
// which it does on the CPU alone.  Size zero, a group of one and all strides are fine (what is not
// contiguous is copied), but outputs that share memory in themselves or with inputs.  Complex ones
// are moved, summed and averaged as pairs; MIN, MAX, PRODUCT and bitwise operations refuse them.
// What moves tensors takes every dtype; what reduces them names those that "gloo" reduces.
// Gradients do not flow through: for that there is distrun/functional.h.  A tensor that autograd
// has saved must not be overwritten by a collective: backward() then throws c10::Error.
//
// An argument that this rank can see to be wrong is a c10::ValueError before anything is sent.  Its
// text names the function, this rank, what was given and what was expected.  Other ranks then wait
// for this one: end it, or repeat the call with valid arguments.  Arguments that are valid on each
// rank but differ between ranks are not detected: results are wrong, or the group loses its
// connections.  To find such a difference, run once with TORCH_DISTRIBUTED_DEBUG=DETAIL
// (process_group.h).  A lost peer and a time-out are a c10::DistBackendError.  It names the
// function and this rank, and the peer that was lost or did not come; the group cannot be used any
// more.  In a process made by fork() each call is a c10::Error: make processes with spawn().  The
// peer need not be the one that failed first: one that ends because of it is lost, too.  A rank
// that is not in the group gets a warning, and nothing happens.
//
// Threads: from one thread at a time for a group, for the order is what matches them.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include "distrun/group.h"
#include "distrun/work.h"

namespace distrun {

// SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR, and makePreMulSum() of c10d.  "gloo" has no AVG for
// integers, no BAND, BOR and BXOR for floating types, and no PREMUL_SUM.
using c10d::ReduceOp;

using Tensors = std::vector<at::Tensor>;

struct CollectiveOptions {
  Group group = {};
  bool async_op = false;
};

// Every rank gets the values that rank `src` has.
Work broadcast(const at::Tensor& tensor, AnyRank src, const CollectiveOptions& options = {});

// Combines the tensors of all ranks element by element; every rank gets the result.  Sparse (COO)
// tensors too, with SUM: the ranks may have different indices then.
Work all_reduce(const at::Tensor& tensor, ReduceOp op = ReduceOp::SUM,
                const CollectiveOptions& options = {});
// Several at once, of one dtype.
Work all_reduce_coalesced(const Tensors& tensors, ReduceOp op = ReduceOp::SUM,
                          const CollectiveOptions& options = {});

// The result goes to rank `dst` alone; what the other ranks' tensors hold then is not defined.
Work reduce(const at::Tensor& tensor, AnyRank dst, ReduceOp op = ReduceOp::SUM,
            const CollectiveOptions& options = {});

// Every rank gets every rank's tensor: `tensors` has one for each rank of the group, by group rank.
Work all_gather(const Tensors& tensors, const at::Tensor& tensor,
                const CollectiveOptions& options = {});
// The same in one tensor: `output` has as many elements as all inputs; they lie one after the
// other. all_gather_single is its newer name in PyTorch.
Work all_gather_into_tensor(const at::Tensor& output, const at::Tensor& input,
                            const CollectiveOptions& options = {});
// Several at once: lists[i] gets every rank's inputs[i].
Work all_gather_coalesced(const std::vector<Tensors>& lists, const Tensors& inputs,
                          const CollectiveOptions& options = {});

// Rank `dst` gets every rank's tensor; on the other ranks `tensors` is empty.
Work gather(const at::Tensor& tensor, const Tensors& tensors = {}, AnyRank dst = GroupRank(0),
            const CollectiveOptions& options = {});

// The rank `src` has a tensor for each rank, by group rank; on the others `tensors` is empty.
Work scatter(const at::Tensor& tensor, const Tensors& tensors = {}, AnyRank src = GroupRank(0),
             const CollectiveOptions& options = {});

// Each rank has a tensor for each rank; they are combined, and each rank gets its own.
Work reduce_scatter(const at::Tensor& output, const Tensors& inputs, ReduceOp op = ReduceOp::SUM,
                    const CollectiveOptions& options = {});
// The same in one tensor: `input` has as many elements as all outputs.
// reduce_scatter_single is its newer name in PyTorch.
Work reduce_scatter_tensor(const at::Tensor& output, const at::Tensor& input,
                           ReduceOp op = ReduceOp::SUM, const CollectiveOptions& options = {});

// Each rank sends inputs[i] to rank i and gets outputs[j] from rank j.  Their sizes may differ, as
// long as what is sent is what is expected; in "gloo" those are copied into one.
Work all_to_all(const Tensors& outputs, const Tensors& inputs,
                const CollectiveOptions& options = {});
// The same in one tensor, divided along its first dimension: evenly, or as the sizes say, one for
// each rank of the group.
Work all_to_all_single(const at::Tensor& output, const at::Tensor& input,
                       std::vector<std::int64_t> output_split_sizes = {},
                       std::vector<std::int64_t> input_split_sizes = {},
                       const CollectiveOptions& options = {});

// Returns when every rank has called it.
Work barrier(const CollectiveOptions& options = {});

struct MonitoredBarrierOptions {
  Group group = {};
  // Not given: the group's.  It must be positive: the others cannot have come in no time.
  std::optional<std::chrono::milliseconds> timeout = std::nullopt;
  // Rank 0 names all ranks that have not come, and not just the first.
  bool wait_all_ranks = false;
};

// A barrier that says who has not come: rank 0 of the group throws an error that names the missing,
// after the timeout, and the others one because rank 0 has.  They wait for rank 0 itself as long as
// the timeout says that the group was made with.  "gloo" and "fake" alone.
void monitored_barrier(const MonitoredBarrierOptions& options = {});

// How many collectives the group has begun on this rank, barriers included: where ranks disagree,
// one of them has left one out.  In "gloo" sends and receives count, too, and a collective that it
// makes of others counts as those.
std::uint64_t get_sequence_number(const Group& group = {});

// Bytes of any length, which may differ: what objects are in Python (all_gather_object, …).  They
// wait.  Of a rank that is not in the group the result is empty.

// What rank `src` has.
std::string broadcast_bytes(const std::string& bytes, AnyRank src, const Group& group = {});
// What each rank has, by group rank.
std::vector<std::string> all_gather_bytes(const std::string& bytes, const Group& group = {});
// The same on rank `dst`; empty on the others.
std::vector<std::string> gather_bytes(const std::string& bytes, AnyRank dst = GroupRank(0),
                                      const Group& group = {});

}  // namespace distrun
