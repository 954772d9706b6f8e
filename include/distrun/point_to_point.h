// Sends tensors from one rank to another, as in torch.distributed.
//
//     if (get_rank() == 0) send(tensor, /*dst=*/1);
//     if (get_rank() == 1) recv(tensor, /*src=*/0);
//
// A receive matches a send with the same tag; sends and receives with the same tag match in the
// order of the calls.  With TORCH_DISTRIBUTED_DEBUG=DETAIL, an irecv() without `src` starts only
// when the program waits for it.  The matching send cannot end earlier.
//
// Shapes: the sender and the receiver pass tensors of the same sizes and dtype.  Every dtype is
// supported.  "gloo" accepts CPU tensors only.
// Throws: as in collectives.h; also c10::ValueError if the peer is this rank or a tag is negative.
// Thread safety: one thread at a time per group.
// PyTorch source: torch/distributed/distributed_c10d.py.
#pragma once

#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "distrun/group.h"
#include "distrun/work.h"

namespace distrun {

// Options of all functions here.
struct PointToPointOptions {
  // The group that both ranks are in.
  Group group = {};
  // At least 0.
  int tag = 0;
};

// Sends the tensor.
//
// Blocks: until the caller is free to change the tensor.  At that time the receiver possibly has
// not received it yet.  With "gloo", send() returns only after the peer has called recv() or
// irecv().  So if two ranks both call send() to each other first, both time out, as in Python.
void send(const at::Tensor& tensor, AnyRank dst, const PointToPointOptions& options = {});

// Receives a tensor, from any rank if `src` is not set.  Returns the sender's global rank, or -1 on
// a rank outside the group.
//
// Blocks: until the tensor has arrived.
int recv(const at::Tensor& tensor, std::optional<AnyRank> src = std::nullopt,
         const PointToPointOptions& options = {});

// Sends without waiting.
Work isend(const at::Tensor& tensor, AnyRank dst, const PointToPointOptions& options = {});
// Receives without waiting; Work::source_rank() is the sender.
Work irecv(const at::Tensor& tensor, std::optional<AnyRank> src = std::nullopt,
           const PointToPointOptions& options = {});

// An operation for batch_isend_irecv().
struct P2POp {
  // The direction.
  enum class Kind {
    kSend,    // To the peer.
    kReceive  // From the peer.
  };

  // The direction of this operation.
  Kind kind = Kind::kSend;
  // The tensor to send or to receive into.
  at::Tensor tensor;
  // The other rank.  A batch cannot receive from any rank.
  AnyRank peer = 0;
  // All operations of a batch must have the same group.
  PointToPointOptions options = {};
};

// Checks all operations, and then starts them in order.  Returns one Work for each operation; on a
// rank outside the group, an empty list.
//
// Throws: c10::ValueError if the list is empty, or the operations have different groups.
std::vector<Work> batch_isend_irecv(const std::vector<P2POp>& operations);

}  // namespace distrun
