// Collectives of a group of ranks, as in torch.distributed.
//
//     all_reduce(tensor);                                              // The sum over all ranks.
//     all_reduce(tensor, ReduceOp::MAX, {.group = pair});              // The maximum in a group.
//     Work work = broadcast(tensor, /*src=*/0, {.async_op = true});    // Returns at once.
//     work.wait();
//
// Every rank of the group must call the same collectives in the same order, with tensors of the
// same dtype.  The tensors must also have the same sizes on every rank, except in all_to_all() and
// all_to_all_single().
//
// The arguments `src` and `dst` are ranks.  An int means a global rank, and GroupRank(n) means a
// rank within the group.  On a rank outside the group, a collective prints a warning and does
// nothing.
//
// Arguments that are valid on each rank but inconsistent across ranks are not detected.  With such
// arguments, results are wrong or connections break.  To detect them, run the program with
// TORCH_DISTRIBUTED_DEBUG=DETAIL (process_group.h).
//
// Functions that only move tensors accept every dtype.  Functions that reduce tensors accept the
// dtypes that the backend can reduce.  "gloo" can reduce double, float, half, bfloat16, uint8,
// int8, int32, int64, bool and complex dtypes.
//
// Gradients do not flow through these collectives.  For differentiable collectives, see
// functional.h.  If a collective overwrites a tensor that autograd has saved, backward() throws
// c10::Error.
//
// Shapes: all tensors are dense.  They may have any strides, and their sizes may be zero.  Outputs
// must have their final sizes, because a collective does not resize outputs.  An output must not
// overlap itself or an input.  The group must have a backend for the tensors' device.  "gloo"
// copies GPU tensors through the CPU.  In coalesced collectives, "gloo" rejects GPU tensors.
// Blocks: until the result is available.  With `async_op`, the call returns at once.  Then call
// wait() of the returned Work.  You can give wait() a timeout that is shorter than the group's
// timeout (work.h).
// Throws: c10::ValueError if the arguments of this rank are invalid.  In this case, this rank has
// not sent any data, and the other ranks wait for it.  This rank must then exit, or repeat the call
// with valid arguments.
// Also throws c10::DistBackendError if the group's timeout expires, or if the connection to a rank
// is lost.  The error names the missing ranks or the lost rank, and the group is then unusable.
// The lost rank is not always the cause, because it may have exited after another rank failed.
// Also throws c10::Error in a fork of the process that created the group.  Such a fork, for example
// a child of spawn() with StartMethod::kFork, can call init_process_group() to create its own
// groups.
// Thread safety: one thread at a time for each group, because ranks match calls by the order of the
// calls.
// Cost: a non-contiguous tensor is copied before the call.  A non-contiguous output is also copied
// back after the call.  The costs of the functions below are those of "gloo" in LibTorch 2.13.  A
// formula gives the number of bytes that a rank sends, without the headers of messages.  In a
// formula, n is the number of ranks, S is the size in bytes of this rank's inputs, and log2(n) is
// rounded up.
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

// The operation that reduces elements: SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR or PREMUL_SUM.
// Create PREMUL_SUM with c10d::makePreMulSum().  Complex tensors support SUM, AVG and PREMUL_SUM,
// and no others.  "gloo" does not support PREMUL_SUM.  In "gloo", AVG needs a floating-point or
// complex dtype, and BAND, BOR and BXOR need an integer dtype or bool.
using c10d::ReduceOp;

// A list of tensors.
using Tensors = std::vector<at::Tensor>;

// Options of the collectives.
struct CollectiveOptions {
  // The ranks that take part.
  Group group = {};
  // If true, the call returns at once with a Work.
  bool async_op = false;
};

// Copies the tensor of rank `src` to every rank.
//
// Cost: rank `src` sends log2(n) · S.  Some of the other ranks forward the data, and send less than
// rank `src`.  At least half of all ranks send nothing.
Work broadcast(const at::Tensor& tensor, AnyRank src, const CollectiveOptions& options = {});

// Reduces the tensors of all ranks element by element.  The result replaces the tensor of every
// rank.
//
// Shapes: the tensor is dense.  With SUM, the tensor may also be sparse (COO).  The indices of a
// sparse tensor may differ between ranks.
// Cost: 2 · (n - 1) / n · S, in a ring.  For a sparse tensor, the cost is (n - 1) · S, where S is
// the size of the indices and values.
Work all_reduce(const at::Tensor& tensor, ReduceOp op = ReduceOp::SUM,
                const CollectiveOptions& options = {});
// Does the same for several tensors in one call.
//
// Shapes: the list has one or more tensors.  All of them are dense and have the same dtype.
// Cost: 2 · (n - 1) / n · S, in a ring.  "gloo" copies all tensors into one temporary tensor and
// back.
Work all_reduce_coalesced(const Tensors& tensors, ReduceOp op = ReduceOp::SUM,
                          const CollectiveOptions& options = {});

// Reduces the tensors of all ranks element by element.  The result replaces the tensor of rank
// `dst`.  Afterwards the values of the other ranks' tensors are unspecified.
//
// Cost: rank `dst` sends (n - 1) / n · S.  Every other rank sends S.
Work reduce(const at::Tensor& tensor, AnyRank dst, ReduceOp op = ReduceOp::SUM,
            const CollectiveOptions& options = {});

// Copies every rank's tensor to every rank.
//
// Shapes: tensors[i] receives the tensor of group rank i, and has the sizes of `tensor`.
// Cost: (n - 1) · S, in a ring.  "gloo" receives into a temporary tensor with the size of all
// outputs, and copies this tensor into the outputs.
Work all_gather(const Tensors& tensors, const at::Tensor& tensor,
                const CollectiveOptions& options = {});
// Does the same with one output tensor.  It contains the inputs one after another, in the order of
// the group ranks.
//
// Shapes: `output` has as many elements as the inputs of all ranks together.
// Cost: as all_gather(), including the temporary tensor.
Work all_gather_into_tensor(const at::Tensor& output, const at::Tensor& input,
                            const CollectiveOptions& options = {});
// Does the same as all_gather_into_tensor(), under PyTorch's newer name.  Error messages show the
// older name.
Work all_gather_single(const at::Tensor& output, const at::Tensor& input,
                       const CollectiveOptions& options = {});
// Does the same as all_gather() for several tensors in one call.
//
// Shapes: lists[i][j] receives inputs[i] of group rank j, and has the sizes of inputs[i].
// Cost: as all_gather().  "gloo" also copies the inputs into one tensor.
Work all_gather_coalesced(const std::vector<Tensors>& lists, const Tensors& inputs,
                          const CollectiveOptions& options = {});

// Copies every rank's tensor to rank `dst`.
//
// Shapes: on `dst`, tensors[i] receives the tensor of group rank i, and has the sizes of `tensor`.
// On other ranks `tensors` is empty.
// Cost: rank `dst` sends nothing.  Every other rank sends S.  On rank `dst`, "gloo" receives into a
// temporary tensor with the size of all outputs, and copies this tensor into the outputs.
Work gather(const at::Tensor& tensor, const Tensors& tensors = {}, AnyRank dst = GroupRank(0),
            const CollectiveOptions& options = {});
// Does the same with one output tensor.  It contains the inputs one after another, in the order of
// the group ranks.
//
// Shapes: on `dst`, `gather_tensor` has as many elements as the inputs of all ranks together.  On
// other ranks `gather_tensor` is ignored.
// Cost: as gather(), including the temporary tensor.
Work gather_single(const at::Tensor& tensor, const at::Tensor& gather_tensor = {},
                   AnyRank dst = GroupRank(0), const CollectiveOptions& options = {});

// Sends tensors[i] of rank `src` to group rank i.
//
// Shapes: `tensor` receives the tensor for this rank.  On `src`, `tensors` has one tensor for each
// rank, with the sizes of `tensor`.  On other ranks `tensors` is empty.
// Cost: rank `src` sends (n - 1) / n · S.  Other ranks send nothing.
Work scatter(const at::Tensor& tensor, const Tensors& tensors = {}, AnyRank src = GroupRank(0),
             const CollectiveOptions& options = {});

// Reduces inputs[i] of all ranks element by element, and stores the result in the output of group
// rank i.
//
// Shapes: `inputs` has one tensor for each rank.  All of them have the sizes of `output`.
// Cost: 2 · (n - 1) / n · S, because "gloo" runs an all_reduce() on a copy of all inputs.
Work reduce_scatter(const at::Tensor& output, const Tensors& inputs, ReduceOp op = ReduceOp::SUM,
                    const CollectiveOptions& options = {});
// Does the same with one input tensor.  It contains the inputs one after another.
//
// Shapes: `input` has as many elements as the outputs of all ranks together.
// Cost: as reduce_scatter().
Work reduce_scatter_tensor(const at::Tensor& output, const at::Tensor& input,
                           ReduceOp op = ReduceOp::SUM, const CollectiveOptions& options = {});
// Does the same as reduce_scatter_tensor(), under PyTorch's newer name.  Error messages show the
// older name.
Work reduce_scatter_single(const at::Tensor& output, const at::Tensor& input,
                           ReduceOp op = ReduceOp::SUM, const CollectiveOptions& options = {});

// Sends inputs[i] to group rank i and receives outputs[j] from group rank j.
//
// Shapes: `inputs` and `outputs` each have one tensor for each rank.  The tensors may have
// different sizes, but outputs[j] must have as many elements as the input that group rank j sends
// to this rank.
// Cost: a rank sends its inputs for the other ranks.  "gloo" copies the inputs into one temporary
// tensor, receives into a second one, and copies the second one into the outputs.
Work all_to_all(const Tensors& outputs, const Tensors& inputs,
                const CollectiveOptions& options = {});
// Does the same with one input tensor and one output tensor.
//
// Shapes: `input` and `output` are split along the first dimension into one part for each rank.
// The split sizes are the sizes of these parts.  If no split sizes are given, all parts have the
// same size.
// Cost: a rank sends its parts for the other ranks.  There is no temporary tensor.
Work all_to_all_single(const at::Tensor& output, const at::Tensor& input,
                       std::vector<std::int64_t> output_split_sizes = {},
                       std::vector<std::int64_t> input_split_sizes = {},
                       const CollectiveOptions& options = {});

// Waits for all ranks.
//
// Blocks: until every rank has called barrier().  With `async_op`, the call returns at once.
// Cost: log2(n) rounds.  In each round, every rank sends an empty message to one rank, and waits
// for the message of another rank.
Work barrier(const CollectiveOptions& options = {});

// Options of monitored_barrier().
struct MonitoredBarrierOptions {
  // The ranks that take part.
  Group group = {};
  // How long group rank 0 waits for the other ranks.  If `timeout` is not set, the group's timeout
  // applies.
  std::optional<std::chrono::milliseconds> timeout = std::nullopt;
  // If true, the error names all missing ranks.  If false, the error names the first missing rank.
  bool wait_all_ranks = false;
};

// Waits for all ranks.  If ranks are missing, the error names them.  Only "gloo" and "fake" support
// this function.
//
// Blocks: until every rank has called monitored_barrier().  Group rank 0 waits at most `timeout`.
// The other ranks wait for group rank 0.  Their limit is the timeout with which the group was
// created.
// Throws: c10::ValueError if the timeout is not positive.
// Also throws c10::DistBackendError if ranks are missing.  On group rank 0, the error names the
// missing ranks.  On other ranks, the error says that group rank 0 failed.
// Cost: every rank except group rank 0 sends one message to group rank 0, and receives one message
// from group rank 0.
void monitored_barrier(const MonitoredBarrierOptions& options = {});

// Returns the sequence number of the group on this rank.  It is the number of collectives,
// including barriers, that this rank has started in the group.  In "gloo", sends and receives also
// count.  If "gloo" runs a collective as several other collectives, the number includes
// each of them.
//
// To find a rank that is behind, compare the sequence numbers of all ranks.  In "gloo", compare
// only the sequence numbers of ranks that have started the same number of sends and receives.
//
// Throws: c10::Error if this rank is not a member.
std::uint64_t get_sequence_number(const Group& group = {});

// Returns the `bytes` of rank `src`, which may have any length.  On a rank outside the group,
// returns an empty string.  The corresponding function of Python is broadcast_object_list().
//
// Blocks: until the result is available.
// Cost: a broadcast() of the length, 8 bytes, and then a broadcast() of the bytes.
std::string broadcast_bytes(const std::string& bytes, AnyRank src, const Group& group = {});
// Returns a list.  Element i is the `bytes` of group rank i.  The lengths may differ between ranks.
// On a rank outside the group, returns an empty list.  The corresponding function of Python is
// all_gather_object().
//
// Blocks: until the result is available.
// Cost: an all_gather() of the lengths, 8 bytes each, and then an all_gather() of the bytes.  The
// bytes of every rank are padded to the longest length.
std::vector<std::string> all_gather_bytes(const std::string& bytes, const Group& group = {});
// On rank `dst`, returns the same list as all_gather_bytes().  On other ranks, returns an empty
// list.  The corresponding function of Python is gather_object().
//
// Blocks: until the result is available.
// Cost: an all_gather() of the lengths, 8 bytes each, and then a gather() of the bytes.  The
// bytes of every rank are padded to the longest length.
std::vector<std::string> gather_bytes(const std::string& bytes, AnyRank dst = GroupRank(0),
                                      const Group& group = {});
// Sends bytes[i] of rank `src` to group rank i, and returns the bytes for this rank.  On a rank
// outside the group, returns an empty string.  The corresponding function of Python is
// scatter_object_list().
//
// Shapes: on `src`, `bytes` has one element for each rank, which may have any length.  On other
// ranks `bytes` is empty.
// Blocks: until the result is available.
// Cost: a scatter() of the lengths, 16 bytes for each rank, and then a scatter() of the bytes.  The
// bytes of every rank are padded to the longest length.
std::string scatter_bytes(const std::vector<std::string>& bytes = {}, AnyRank src = GroupRank(0),
                          const Group& group = {});

}  // namespace distrun
