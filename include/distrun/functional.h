// Differentiable collectives, as in torch.distributed.nn.functional.  Gradients flow through these
// collectives: an input on one rank gets gradients from the losses of all ranks.
//
//     namespace F = distrun::functional;
//     at::Tensor mean = F::all_reduce(x, ReduceOp::AVG);       // A new tensor; x does not change.
//     loss(mean).backward();                                   // Sets x.grad().
//
// Each function returns new tensors.  The backward pass of each function runs a collective too:
//
//     function                               backward pass
//     all_reduce      SUM | AVG              all_reduce with the same operation
//     reduce          to dst                 broadcast from dst
//     broadcast       from src               reduce to src; zeros on other ranks
//     all_gather                             all_to_all, and then the sum of the parts
//     all_gather in "nccl"                   reduce_scatter
//     gather          to dst                 scatter from dst
//     scatter         from src               gather to src; zeros on other ranks
//     reduce_scatter  SUM | AVG              all_gather
//     all_to_all, all_to_all_single          the same function, in the opposite direction
//
// Therefore, all ranks must follow these rules:
//
//   - An input must require a gradient on every rank or on no rank.  This also applies to inputs
//     whose values are not used, such as the inputs of scatter and broadcast on ranks other than
//     `src`.
//   - If inputs require gradients, every rank must call backward() on a loss that uses the output.
//     Otherwise, backward() on the other ranks waits until the timeout.  If a rank has no use for
//     an output y, add a term such as 0 * y.sum() to its loss.
//   - All ranks must call these functions in the same order.  backward() runs the collectives of
//     the backward pass in the reverse order of the calls.
//
// If a loss uses only a part of an output, the other parts get zero gradients.
//
// Gradients of gradients (create_graph) work only under a condition.  Let x be the input of one of
// these functions, and y its output.  On every rank, the gradient of the loss with respect to y
// must depend on x.  For the loss y.pow(2).sum(), this gradient is 2y, which depends on x.  For the
// loss y.sum(), it is 1, which does not.
// For reduce and gather, the condition also applies to ranks other than `dst`.
//
// These functions differ from Python in three ways.  If an input requires a gradient, reduce
// operations other than SUM and AVG throw.  (Python computes a wrong gradient.)  With AVG, the
// backward pass of reduce and reduce_scatter divides by the number of ranks.  (Python does not
// divide.)  On a rank outside the group, the functions throw.
//
// Shapes: as in collectives.h.  All tensors of a list must have the same dtype.
// Blocks: until the result is available.  backward() also blocks until its collectives have ended.
// Throws: the exceptions of collectives.h.  If a collective fails in backward(), the text names
// this collective.
// Thread safety: one thread at a time for each group.  This also applies to backward().
// Cost: as the collective of the same name in collectives.h.  backward() costs as much as the
// collective in the table.  broadcast, all_reduce and reduce also copy the input.
// PyTorch source: torch/distributed/nn/functional.py.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "distrun/collectives.h"

namespace distrun::functional {

// Returns a copy of the tensor of rank `src`.
//
// Shapes: `tensor` has the same sizes on every rank.
at::Tensor broadcast(const at::Tensor& tensor, AnyRank src, const Group& group = {});

// Returns the tensors of all ranks, reduced element by element.
at::Tensor all_reduce(const at::Tensor& tensor, ReduceOp op = ReduceOp::SUM,
                      const Group& group = {});

// On rank `dst`, returns the same as all_reduce().  On other ranks, returns a tensor with the sizes
// of the input and unspecified values.
at::Tensor reduce(const at::Tensor& tensor, AnyRank dst, ReduceOp op = ReduceOp::SUM,
                  const Group& group = {});

// Returns a list.  Element i is the tensor of group rank i.
Tensors all_gather(const at::Tensor& tensor, const Group& group = {});

// On rank `dst`, returns the same list as all_gather().  On other ranks, returns a list of the same
// length whose tensors contain only zeros.
//
// Cost: as gather() in collectives.h.  Every rank needs memory for the list.
Tensors gather(const at::Tensor& tensor, AnyRank dst = GroupRank(0), const Group& group = {});

// Returns tensors[i] of rank `src`, where i is the group rank of this rank.
//
// Shapes: `tensors` has one tensor for each rank.  The sizes are the same on every rank.  The
// values of `tensors` are used on rank `src` only.
at::Tensor scatter(const Tensors& tensors, AnyRank src = GroupRank(0), const Group& group = {});

// Returns inputs[i] of all ranks, reduced element by element, where i is the group rank of this
// rank.
//
// Shapes: `inputs` has one tensor for each rank.  All of them have the same sizes.
at::Tensor reduce_scatter(const Tensors& inputs, ReduceOp op = ReduceOp::SUM,
                          const Group& group = {});

// Sends inputs[i] to group rank i, and returns a list.  Element j is the tensor that group rank j
// sent to this rank.
//
// Shapes: the result has the sizes of `outputs`.  The values of `outputs` are not used.
Tensors all_to_all(const Tensors& outputs, const Tensors& inputs, const Group& group = {});

// Does the same with one input tensor, and returns one tensor.
//
// Shapes: as distrun::all_to_all_single().  The result has the sizes of `output`.  The values of
// `output` are not used.
at::Tensor all_to_all_single(const at::Tensor& output, const at::Tensor& input,
                             std::vector<std::int64_t> output_split_sizes = {},
                             std::vector<std::int64_t> input_split_sizes = {},
                             const Group& group = {});

}  // namespace distrun::functional
