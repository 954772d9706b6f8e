// Point-to-point communication sends a tensor from one rank to another, as in torch.distributed.
//
//     if (get_rank() == 0) send(tensor, /*dst=*/1);
//     if (get_rank() == 1) recv(tensor, /*src=*/0);
//
// A receive matches a send with the same tag.  If several sends between two ranks have the same
// tag, sends and receives match in the order of the calls.  With TORCH_DISTRIBUTED_DEBUG=DETAIL, an
// irecv() without `src` does not start before you call wait() of its Work.  The matching send
// cannot end before this receive starts.
//
// Shapes: the sender and the receiver pass tensors of the same sizes and dtype.  Every dtype is
// supported.  "gloo" accepts CPU tensors and no others.
// Throws: the exceptions of collectives.h.
// Also throws c10::ValueError if the other rank is this rank, or if a tag is negative.
// Thread safety: one thread at a time for each group.
// Cost: the sender sends the bytes of the tensor.  "gloo" sends these bytes after the receiver has
// reported that it is ready.  A non-contiguous tensor is copied before the call.  On the receiver,
// a non-contiguous tensor is also copied back.
// PyTorch source: torch/distributed/distributed_c10d.py.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "distrun/group.h"
#include "distrun/work.h"

namespace distrun {

// Options of all functions in this header.
struct PointToPointOptions {
  // The group.  Both ranks must be members.
  Group group = {};
  // The tag of the send or receive, at least 0.
  int tag = 0;
};

// Sends the tensor.
//
// Blocks: until the caller may change the tensor.  The receiver may still be receiving it.  With
// "gloo", send() returns only after the receiver has called recv() or irecv().  Therefore, if two
// ranks call send() to each other before recv(), both calls of send() time out, as in Python.
void send(const at::Tensor& tensor, AnyRank dst, const PointToPointOptions& options = {});

// Receives a tensor from rank `src`, or from any rank if `src` is not set.  Returns the global rank
// of the sender.  On a rank outside the group, returns -1.
//
// Blocks: until the tensor has arrived.
int recv(const at::Tensor& tensor, std::optional<AnyRank> src = std::nullopt,
         const PointToPointOptions& options = {});

// Starts to send the tensor and returns at once.  Do not change the tensor before wait() of the
// Work returns.
Work isend(const at::Tensor& tensor, AnyRank dst, const PointToPointOptions& options = {});
// Starts to receive a tensor and returns at once.  Do not use the tensor before wait() of the Work
// returns.  Then Work::source_rank() returns the sender.
Work irecv(const at::Tensor& tensor, std::optional<AnyRank> src = std::nullopt,
           const PointToPointOptions& options = {});

// Sends bytes of any length.  The receiver calls recv_bytes().  The corresponding function of
// Python is send_object_list().
//
// Blocks: as send().
// Cost: a send() of the length, 8 bytes, and then a send() of the bytes.
void send_bytes(const std::string& bytes, AnyRank dst, const PointToPointOptions& options = {});
// Receives into `bytes` what rank `src` sends with send_bytes(), or any rank if `src` is not set.
// Returns the global rank of the sender.  On a rank outside the group, returns -1.  The
// corresponding function of Python is recv_object_list().
//
// Blocks: until the bytes have arrived.
int recv_bytes(std::string& bytes, std::optional<AnyRank> src = std::nullopt,
               const PointToPointOptions& options = {});

// An operation for batch_isend_irecv().
struct P2POp {
  // Whether the operation sends or receives.
  enum class Kind {
    kSend,    // Send to `peer`.
    kReceive  // Receive from `peer`.
  };

  // Whether this operation sends or receives.
  Kind kind = Kind::kSend;
  // The tensor to send or to receive into.
  at::Tensor tensor;
  // The other rank.  In a batch, every operation must set `peer`, even if it receives.
  AnyRank peer = 0;
  // The group and the tag.  All operations of a batch must have the same group.
  PointToPointOptions options = {};
};

// Checks all operations, and then starts them in order.  Returns one Work for each operation.  On a
// rank outside the group, returns an empty list.
//
// Throws: c10::ValueError if the list is empty, or if the operations have different groups.
std::vector<Work> batch_isend_irecv(const std::vector<P2POp>& operations);

}  // namespace distrun
