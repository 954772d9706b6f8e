// Collectives that gradients flow through, as in torch.distributed.nn.functional: an input on one
// rank gets gradients from the losses of all ranks.
//
//     namespace F = distrun::functional;
//     at::Tensor mean = F::all_reduce(x, ReduceOp::AVG);       // A new tensor; x does not change.
//     loss(mean).backward();                                   // x.grad(): from all ranks' losses.
//
// Each function returns new tensors.  The backward of each function is a collective too:
//
//     forward                                backward
//     all_reduce      SUM | AVG              all_reduce with the same operation
//     reduce          to dst                 broadcast from dst
//     broadcast       from src               reduce to src; zeros on other ranks
//     all_gather                             all_to_all, and the sum of the parts
//     gather          to dst                 scatter from dst
//     scatter         from src               gather to src; zeros on other ranks
//     reduce_scatter  SUM | AVG              all_gather
//     all_to_all, all_to_all_single          the same, in reverse
//
// If gradients are required, every rank that calls such a function must therefore call backward()
// on a result of the function, and all ranks must do so in the same order.  If a graph contains
// several of these functions, backward() runs them in the reverse order of their calls, which must
// be the same on every rank.  If a loss uses a part of an output, the other parts get zero
// gradients.  If the loss of a rank does not use an output at all, the backward() of the other
// ranks waits until the timeout.  On such a rank, add a term such as 0 * y.sum() to the loss.  An
// input must require a gradient on every rank or on no rank.  This also applies to inputs whose
// values are not used, such as the inputs of scatter and broadcast on ranks other than src.
//
// Gradients of gradients (create_graph) work if, on every rank, the gradient of the loss with
// respect to the output y depends on the input: for example with the loss y.pow(2).sum(), but not
// with y.sum().  For reduce and gather, this also applies to ranks other than dst.
//
// There are three differences from Python.  Reduce operations other than SUM and AVG throw if an
// input requires a gradient (Python computes a wrong gradient).  With AVG, the backward of reduce
// and reduce_scatter also divides by the number of ranks.  On a rank outside the group, the
// functions throw.
//
// Shapes: as in collectives.h.  All tensors of a list must have the same dtype.
// Blocks: until the result is available, in backward() too.
// Throws: as in collectives.h.  The text of an exception of backward() names the collective that
// failed.
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

// On rank `dst`, returns the reduction over all ranks.  On other ranks, returns a tensor with the
// sizes of the input, whose values are unspecified.
at::Tensor reduce(const at::Tensor& tensor, AnyRank dst, ReduceOp op = ReduceOp::SUM,
                  const Group& group = {});

// Returns a list whose element i is the tensor of group rank i.
Tensors all_gather(const at::Tensor& tensor, const Group& group = {});

// On rank `dst`, returns the same list as all_gather().  On other ranks, returns a list of as many
// tensors, all zeros.
Tensors gather(const at::Tensor& tensor, AnyRank dst = GroupRank(0), const Group& group = {});

// Returns the tensor that rank `src` has for this rank.
//
// Shapes: `tensors` has one tensor for each rank, with the same sizes on every rank.  Only the
// values on `src` are used.
at::Tensor scatter(const Tensors& tensors, AnyRank src = GroupRank(0), const Group& group = {});

// Returns the reduction of inputs[i] over all ranks, where i is the group rank of this rank.
//
// Shapes: one input for each rank, all with the same sizes.
at::Tensor reduce_scatter(const Tensors& inputs, ReduceOp op = ReduceOp::SUM,
                          const Group& group = {});

// Sends inputs[i] to group rank i, and returns a list whose element j is the tensor that group rank
// j sent to this rank.
//
// Shapes: the result has the sizes of `outputs`, whose values are neither read nor written.
Tensors all_to_all(const Tensors& outputs, const Tensors& inputs, const Group& group = {});

// Does the same with parts of one tensor.
//
// Shapes: as distrun::all_to_all_single().  The result has the sizes of `output`, whose values are
// neither read nor written.
at::Tensor all_to_all_single(const at::Tensor& output, const at::Tensor& input,
                             std::vector<std::int64_t> output_split_sizes = {},
                             std::vector<std::int64_t> input_split_sizes = {},
                             const Group& group = {});

}  // namespace distrun::functional
