// Collectives that gradients flow through, as in torch.distributed.nn.functional: an input on one
// rank gets gradients from the losses of all ranks.
//
//     namespace F = distrun::functional;
//     at::Tensor mean = F::all_reduce(x, ReduceOp::AVG);       // A new tensor; x does not change.
//     loss(mean).backward();                                   // x.grad(): from all ranks' losses.
//
// Each returns new tensors.  Its backward is a collective too:
//
//     forward                                backward
//     all_reduce      SUM | AVG              all_reduce with the same operation
//     reduce          to dst                 broadcast from dst
//     broadcast       from src               reduce to src; zeros on the others
//     all_gather                             all_to_all, and the sum of the parts
//     gather          to dst                 scatter from dst
//     scatter         from src               gather to src; zeros on the others
//     reduce_scatter  SUM | AVG              all_gather
//     all_to_all, all_to_all_single          the same, in reverse
//
// Every rank that calls such a function must therefore call backward() on a result of the function,
// and all ranks must do so in the same order.  If a graph contains several of these functions,
// backward() runs them in the reverse order of their calls, which must be the same on every rank.
// If a loss uses a part of an output, the other parts get zero gradients.  If the loss of a rank
// does not use an output at all, the backward() of the other ranks waits until the timeout.  Use
// the output at least in a term such as 0 * y.sum().  An input must require a gradient on every
// rank or on no rank.  This includes inputs whose values are not used, such as the inputs of
// scatter and broadcast on ranks other than src.
//
// A backward can be differentiated again (create_graph) if its gradient depends on the input on
// every rank.  For reduce and gather, this includes ranks other than dst.
//
// There are three differences from Python.  Operations other than SUM and AVG throw if an input
// requires a gradient (Python computes a wrong gradient).  AVG also divides in the backward of
// reduce and reduce_scatter.  A rank outside the group throws.
//
// Shapes: as in collectives.h.  All tensors of a list have the same dtype.
// Blocks: until the result is available, in backward() too.
// Throws: as in collectives.h.  In backward() the text names the collective that fails.
// Thread safety: one thread at a time per group, including backward().
// PyTorch source: torch/distributed/nn/functional.py.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "distrun/collectives.h"

namespace distrun::functional {

// Returns the tensor of rank `src`.
//
// Shapes: the same on every rank.
at::Tensor broadcast(const at::Tensor& tensor, AnyRank src, const Group& group = {});

// Returns the reduction over all ranks.
at::Tensor all_reduce(const at::Tensor& tensor, ReduceOp op = ReduceOp::SUM,
                      const Group& group = {});

// Returns the reduction over all ranks on rank `dst`, and undefined values on the others.
at::Tensor reduce(const at::Tensor& tensor, AnyRank dst, ReduceOp op = ReduceOp::SUM,
                  const Group& group = {});

// Returns every rank's tensor, by group rank.
Tensors all_gather(const at::Tensor& tensor, const Group& group = {});

// Returns every rank's tensor on rank `dst`, and as many zeros on the others.
Tensors gather(const at::Tensor& tensor, AnyRank dst = GroupRank(0), const Group& group = {});

// Returns the tensor that rank `src` has for this rank.
//
// Shapes: one tensor per rank, of the same sizes on every rank; only the values on `src` matter.
at::Tensor scatter(const Tensors& tensors, AnyRank src = GroupRank(0), const Group& group = {});

// Returns the reduction of inputs[i] over all ranks, where i is this rank in the group.
//
// Shapes: one input per rank.
at::Tensor reduce_scatter(const Tensors& inputs, ReduceOp op = ReduceOp::SUM,
                          const Group& group = {});

// Sends inputs[i] to group rank i and returns what the ranks sent to this one.
//
// Shapes: `outputs` gives the sizes of the result; it is not written.
Tensors all_to_all(const Tensors& outputs, const Tensors& inputs, const Group& group = {});

// Does the same with parts of one tensor.
//
// Shapes: input and output are split along the first dimension, evenly or by the split sizes.
// `output` gives the sizes of the result; it is not written.
at::Tensor all_to_all_single(const at::Tensor& output, const at::Tensor& input,
                             std::vector<std::int64_t> output_split_sizes = {},
                             std::vector<std::int64_t> input_split_sizes = {},
                             const Group& group = {});

}  // namespace distrun::functional
