// Collectives of a group of ranks, as in torch.distributed.
//
//     all_reduce(tensor);                                              // The sum over all ranks.
//     all_reduce(tensor, ReduceOp::MAX, {.group = pair});              // The maximum in a group.
//     Work work = broadcast(tensor, /*src=*/0, {.async_op = true});    // Returns at once.
//     work.wait();
//
// Every rank of the group must call the same collectives in the same order, with tensors of the
// same sizes and dtype; only all_to_all and all_to_all_single allow different sizes.  An int is a
// global rank; GroupRank(n) is a rank within the group.  On a rank outside the group, a collective
// prints a warning and does nothing.
//
// Arguments that are valid on each rank but inconsistent across ranks are not detected: results are
// wrong, or connections break.  Run with TORCH_DISTRIBUTED_DEBUG=DETAIL to detect such arguments
// (process_group.h).
//
// Shapes: dense tensors of any strides; sizes may be zero.  Non-contiguous tensors are copied.
// Outputs are written in place and must have their final sizes.  An output must not overlap itself
// or an input.  The group must have a backend for the tensors' device.  "gloo" copies GPU tensors
// through the CPU, and rejects GPU tensors in coalesced and point-to-point operations.  Functions
// that only move tensors accept every dtype.  Functions that reduce accept the dtypes that the
// backend can reduce.  If "gloo" cannot reduce a dtype, the error lists the dtypes that it can
// reduce.  Gradients do not flow through these collectives (distrun/functional.h has collectives
// with gradients).  If a collective overwrites a tensor that autograd has saved, backward() throws
// c10::Error.
// Blocks: until the result is available.  With `async_op` the call returns at once; call wait() of
// the Work that it returns.
// Throws: c10::ValueError, before this rank sends data, if its arguments are invalid;
// c10::DistBackendError if the group's timeout expires or a peer is lost; c10::Error in a fork of
// the process that created the group.  After a c10::ValueError, the other ranks wait for this rank,
// so exit, or repeat the call with valid arguments.  A c10::DistBackendError names the lost peer or
// the missing ranks, and the group is then unusable.  A lost peer may have exited because another
// rank failed first.  You can give Work::wait() a shorter timeout than the group's.  If that
// timeout expires, the group usually stays usable (work.h).  A fork, such as a child of spawn()
// with StartMethod::kFork, can call init_process_group() to create its own groups.
// Thread safety: one thread at a time per group, because ranks match calls by their order.
// PyTorch source: torch/distributed/distributed_c10d.py.
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

// SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR, and PREMUL_SUM, which c10d::makePreMulSum()
// creates.  Complex tensors support SUM, AVG and PREMUL_SUM only.  "gloo" does not support
// PREMUL_SUM.  In "gloo", AVG needs a floating-point or complex dtype; BAND, BOR and BXOR need an
// integer dtype or bool.
using c10d::ReduceOp;

// A list of tensors.
using Tensors = std::vector<at::Tensor>;

// Options of every collective.
struct CollectiveOptions {
  // The ranks that take part.
  Group group = {};
  // If true, the call returns at once with a Work.
  bool async_op = false;
};

// Copies the tensor of rank `src` to every rank.
Work broadcast(const at::Tensor& tensor, AnyRank src, const CollectiveOptions& options = {});

// Reduces the tensors of all ranks element by element, in place; every rank gets the result.
//
// Shapes: dense, or with SUM also sparse (COO); sparse tensors may have different indices on each
// rank.
Work all_reduce(const at::Tensor& tensor, ReduceOp op = ReduceOp::SUM,
                const CollectiveOptions& options = {});
// Reduces several tensors at once.
//
// Shapes: at least one tensor; all tensors have the same dtype.
Work all_reduce_coalesced(const Tensors& tensors, ReduceOp op = ReduceOp::SUM,
                          const CollectiveOptions& options = {});

// Reduces the tensors of all ranks; rank `dst` gets the result in its tensor.  Afterwards the
// values in the other ranks' tensors are unspecified.
Work reduce(const at::Tensor& tensor, AnyRank dst, ReduceOp op = ReduceOp::SUM,
            const CollectiveOptions& options = {});

// Copies every rank's tensor to every rank.
//
// Shapes: tensors[i] receives the tensor of group rank i, and has the sizes of `tensor`.
Work all_gather(const Tensors& tensors, const at::Tensor& tensor,
                const CollectiveOptions& options = {});
// Does the same into one tensor, one input after another.
//
// Shapes: `output` has as many elements as the inputs of all ranks together.
Work all_gather_into_tensor(const at::Tensor& output, const at::Tensor& input,
                            const CollectiveOptions& options = {});
// Does the same as all_gather_into_tensor(), under PyTorch's newer name.  Error messages use the
// older name.
Work all_gather_single(const at::Tensor& output, const at::Tensor& input,
                       const CollectiveOptions& options = {});
// Gathers several tensors at once: lists[i] receives inputs[i] of every rank.
//
// Shapes: lists[i][j] receives the tensor of group rank j, and has the sizes of inputs[i].
Work all_gather_coalesced(const std::vector<Tensors>& lists, const Tensors& inputs,
                          const CollectiveOptions& options = {});

// Copies every rank's tensor to rank `dst`.
//
// Shapes: on `dst`, tensors[i] receives the tensor of group rank i, and has the sizes of `tensor`.
// On other ranks `tensors` is empty.
Work gather(const at::Tensor& tensor, const Tensors& tensors = {}, AnyRank dst = GroupRank(0),
            const CollectiveOptions& options = {});
// Does the same into one tensor, one input after another.
//
// Shapes: on `dst`, `gather_tensor` has as many elements as the inputs of all ranks together.  On
// other ranks `gather_tensor` is ignored.
Work gather_single(const at::Tensor& tensor, const at::Tensor& gather_tensor = {},
                   AnyRank dst = GroupRank(0), const CollectiveOptions& options = {});

// Sends tensors[i] of rank `src` to group rank i.
//
// Shapes: `tensor` receives the part of this rank.  On `src`, `tensors` has one tensor for each
// rank, with the sizes of `tensor`.  On other ranks `tensors` is empty.
Work scatter(const at::Tensor& tensor, const Tensors& tensors = {}, AnyRank src = GroupRank(0),
             const CollectiveOptions& options = {});

// Reduces inputs[i] of all ranks and gives the result to group rank i.
//
// Shapes: one input for each rank, with the sizes of `output`.
Work reduce_scatter(const at::Tensor& output, const Tensors& inputs, ReduceOp op = ReduceOp::SUM,
                    const CollectiveOptions& options = {});
// Does the same, with one tensor as the input.
//
// Shapes: `input` has as many elements as the outputs of all ranks together.
Work reduce_scatter_tensor(const at::Tensor& output, const at::Tensor& input,
                           ReduceOp op = ReduceOp::SUM, const CollectiveOptions& options = {});
// Does the same as reduce_scatter_tensor(), under PyTorch's newer name.  Error messages use the
// older name.
Work reduce_scatter_single(const at::Tensor& output, const at::Tensor& input,
                           ReduceOp op = ReduceOp::SUM, const CollectiveOptions& options = {});

// Sends inputs[i] to group rank i and receives outputs[j] from group rank j.
//
// Shapes: one input and one output for each rank.  Sizes may differ, but outputs[j] must have as
// many elements as the input that group rank j sends to this rank.
// Cost: if the sizes differ, "gloo" copies all tensors into one first.
Work all_to_all(const Tensors& outputs, const Tensors& inputs,
                const CollectiveOptions& options = {});
// Does the same with parts of one tensor.
//
// Shapes: input and output are split along the first dimension into one part for each rank.  The
// parts have the split sizes, or are equal if no split sizes are given.
Work all_to_all_single(const at::Tensor& output, const at::Tensor& input,
                       std::vector<std::int64_t> output_split_sizes = {},
                       std::vector<std::int64_t> input_split_sizes = {},
                       const CollectiveOptions& options = {});

// Waits for all ranks.
//
// Blocks: until every rank has called it.  With `async_op` the call returns at once.
Work barrier(const CollectiveOptions& options = {});

// Options of monitored_barrier().
struct MonitoredBarrierOptions {
  // The ranks that take part.
  Group group = {};
  // Not set: the group's timeout.
  std::optional<std::chrono::milliseconds> timeout = std::nullopt;
  // If true, the error names all missing ranks.  If false, it names the first one.
  bool wait_all_ranks = false;
};

// Waits for all ranks; if ranks are missing, the error names them.  Only "gloo" and "fake" support
// it.
//
// Blocks: until every rank has called it.  Group rank 0 waits at most `timeout`.  The other ranks
// wait for group rank 0; their limit is the timeout with which the group was created, not
// `timeout`.
// Throws: c10::ValueError if the timeout is not positive; c10::DistBackendError if ranks are
// missing.  On group rank 0 the error names the missing ranks; on other ranks it says that group
// rank 0 failed.
void monitored_barrier(const MonitoredBarrierOptions& options = {});

// Returns the sequence number: how many collectives, including barriers, this rank has started in
// the group.  "gloo" also counts sends and receives.  If "gloo" runs a collective by calling other
// collectives, each of those calls counts.  To find a rank that is behind, compare the numbers of
// ranks that have started the same number of sends and receives.
std::uint64_t get_sequence_number(const Group& group = {});

// Returns the bytes of rank `src`, of any length; on a rank outside the group, an empty string.  In
// Python: broadcast_object_list().
//
// Blocks: until the result is available.
std::string broadcast_bytes(const std::string& bytes, AnyRank src, const Group& group = {});
// Returns a list whose element i is the bytes of group rank i; on a rank outside the group, an
// empty list.  Lengths may differ.  In Python: all_gather_object().
//
// Blocks: until the result is available.
// Cost: every rank's bytes are padded to the longest length.
std::vector<std::string> all_gather_bytes(const std::string& bytes, const Group& group = {});
// On rank `dst`, returns the bytes of each rank, as all_gather_bytes() does; on other ranks, an
// empty list.  In Python: gather_object().
//
// Blocks: until the result is available.
// Cost: every rank's bytes are padded to the longest length.
std::vector<std::string> gather_bytes(const std::string& bytes, AnyRank dst = GroupRank(0),
                                      const Group& group = {});

}  // namespace distrun
