// Differentiable sends and receives.  The backward pass of a receive sends the gradient back to the
// sender.  The backward pass of a send receives this gradient.
//
//     namespace F = distrun::functional;
//     if (get_rank() == 0) {
//       const at::Tensor token = F::send(first(x), /*dst=*/1);
//       token.backward();                             // Receives the gradient, and uses it.
//     } else {
//       const at::Tensor room = at::empty({8, 64}).requires_grad_();
//       loss(second(F::recv(room, /*src=*/0))).backward();             // Sends the gradient.
//     }
//
// A send has no result that the loss of this rank depends on, so autograd would not run its
// backward pass.  Therefore, a send returns a token: a tensor without dimensions, whose value is 0.
// On a rank without a loss, call backward() on the token, or on the sum of all tokens.  On a rank
// with a loss, call backward() on the sum of the loss and the tokens.
//
// The ranks must follow these rules:
//
//   - The tensor of a send and the tensor of its receive must both require a gradient, or neither.
//     Of a receive, the tensor gives only sizes, dtype, device and this property.  Tensors of
//     integers cannot require a gradient, so no gradient is sent for them.
//   - If they require gradients, both ranks must call backward(): the sender on the token, and the
//     receiver on a loss that uses the received tensor.  Otherwise, backward() on the other rank
//     waits until the timeout.
//   - Each rank must run one backward() for all messages that it exchanged since the last one.
//
// backward() runs sends and receives in the reverse order of the calls on this rank.  Therefore, if
// the calls do not block each other forever, neither do those of backward().  Messages in both
// directions at the same time, as in a ring, need batch_isend_irecv() with all of them.
//
// If a function that communicates is computed again in backward (activation checkpointing), it
// sends and receives again.  Both ranks must then compute it again, in the same order.
//
// If a part of a received tensor is not used, its gradient is zero.  Gradients of gradients
// (create_graph) are not supported.
//
// Shapes: as in point_to_point.h.
// Blocks: until the message has arrived, or the caller may change the tensor that it has sent.
// backward() blocks until its messages have arrived.
// Throws: the exceptions of point_to_point.h.
// Also throws c10::ValueError if a tensor is not defined, or if this rank is not in the group.
// backward() throws c10::DistBackendError if the other rank fails.  The text names that rank.
// backward() throws c10::Error with create_graph.
// Thread safety: one thread at a time for each group.  This also applies to backward().
// Cost: each message is sent once, and its gradient once in backward().
// PyTorch source: none; programs in Python define a torch.autograd.Function for this.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include "distrun/point_to_point.h"

namespace distrun::functional {

// Sends the tensor, and returns a token of dtype float on the device of the tensor.
//
// Blocks: as distrun::send().
at::Tensor send(const at::Tensor& tensor, AnyRank dst, const PointToPointOptions& options = {});

// Receives a tensor, and returns it.  It has the sizes, dtype and device of `like`, whose values do
// not change.
//
// Blocks: until the tensor has arrived.
at::Tensor recv(const at::Tensor& like, AnyRank src, const PointToPointOptions& options = {});

// Starts all operations, and waits for them.  Returns one tensor for each operation: a token for a
// send, and the received tensor for a receive.  backward() runs all operations of the batch in the
// opposite direction if the loss uses at least one of these tensors.  So, a batch that also
// receives needs no token in the loss.
//
//     // A ring: each rank gets the tensor of the rank before it.
//     const Tensors got = F::batch_isend_irecv({
//         {.kind = P2POp::Kind::kSend, .tensor = x, .peer = next},
//         {.kind = P2POp::Kind::kReceive, .tensor = at::empty_like(x).requires_grad_(),
//          .peer = previous}});
//     loss(got[1]).backward();
//
// Blocks: until all messages have arrived.
// Throws: the exceptions of distrun::batch_isend_irecv().
std::vector<at::Tensor> batch_isend_irecv(const std::vector<P2POp>& operations);

}  // namespace distrun::functional
