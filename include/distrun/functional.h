// Collectives that gradients flow through, as in torch.distributed.nn.functional: what one rank
// puts in gets a gradient from whatever the other ranks make of it.
//
//     namespace F = distrun::functional;
//     at::Tensor mean = F::all_reduce(x, ReduceOp::AVG);       // a new tensor: x stays as it is
//     loss(mean).backward();                                   // x.grad(): of all ranks' losses
//
// Each is the collective of the same name (distrun/collectives.h, which says what tensors, ranks
// and errors there are), into new tensors, and waits.  Its backward is a collective, too: so every
// rank of the group that calls one calls backward() on what it has made of it, and all in the same
// order.  Where several are in one graph, their backwards come in the reverse order of the calls,
// which is then the same on every rank.  What a loss does not use of an output counts as zeros; an
// output of which nothing is used at all takes no part, and the others wait for this rank.
//
// So an input requires a gradient on every rank or on none, also where its values do not matter
// (the dummies of scatter, what is broadcast to), and every rank has a loss, if only 0 * y.sum():
// else this rank's backward() has nothing to do, and that of others waits for it until the timeout.
//
//     forward                                backward
//     all_reduce      SUM | AVG              all_reduce with the same operation
//     reduce          to dst                 broadcast from dst
//     broadcast       from src               reduce to src; zeros on the others
//     all_gather                             all_to_all, and the sum of what comes
//     gather          to dst                 scatter from dst
//     scatter         from src               gather to src; zeros on the others
//     reduce_scatter  SUM | AVG              all_gather
//     all_to_all, all_to_all_single          the same, the other way round
//
// Each backward can be differentiated again (create_graph), where on every rank its gradient
// depends on the input: of reduce and gather so on ranks other than dst, too.
//
// Unlike Python: an operation other than SUM and AVG has no gradient here, which is an error where
// one is wanted (in Python all_reduce, reduce and reduce_scatter give wrong ones); AVG divides in
// the backward of reduce and reduce_scatter, too; a rank that is not in the group gets an error.
//
// Tensors of a list are of one dtype: real ones do not stand for complex ones here.
//
// Errors: as those of the collectives.  In backward() they name the collective that it makes.
// Threads: from one thread at a time for a group; backward() counts.
//
// From torch/distributed/nn/functional.py.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "distrun/collectives.h"

namespace distrun::functional {

// Every rank gets the values that rank `src` has.  `tensor` is of the same sizes everywhere.
at::Tensor broadcast(const at::Tensor& tensor, AnyRank src, const Group& group = {});

// Every rank gets the sum, or the mean.
at::Tensor all_reduce(const at::Tensor& tensor, ReduceOp op = ReduceOp::SUM,
                      const Group& group = {});

// Rank `dst` gets it; what the others get is not defined.
at::Tensor reduce(const at::Tensor& tensor, AnyRank dst, ReduceOp op = ReduceOp::SUM,
                  const Group& group = {});

// Every rank gets every rank's tensor, by group rank.
Tensors all_gather(const at::Tensor& tensor, const Group& group = {});

// The same on rank `dst`; on the others zeros, as many.
Tensors gather(const at::Tensor& tensor, AnyRank dst = GroupRank(0), const Group& group = {});

// Each rank gets the tensor that rank `src` has for it.  The others give as many, of the same
// sizes, whose values do not matter.
at::Tensor scatter(const Tensors& tensors, AnyRank src = GroupRank(0), const Group& group = {});

// Each rank has a tensor for each rank; they are combined, and each rank gets its own.
at::Tensor reduce_scatter(const Tensors& inputs, ReduceOp op = ReduceOp::SUM,
                          const Group& group = {});

// Each rank sends inputs[i] to rank i.  `outputs` are like what comes; their values are not
// touched.
Tensors all_to_all(const Tensors& outputs, const Tensors& inputs, const Group& group = {});

// The same in one tensor, divided along its first dimension: evenly, or as the sizes say.  The
// result is as large as `output`, whose values are not touched.
at::Tensor all_to_all_single(const at::Tensor& output, const at::Tensor& input,
                             std::vector<std::int64_t> output_split_sizes = {},
                             std::vector<std::int64_t> input_split_sizes = {},
                             const Group& group = {});

}  // namespace distrun::functional
