// Sending from one rank to another, under the names of torch.distributed.
//
//     if (get_rank() == 0) send(tensor, /*dst=*/1);
//     if (get_rank() == 1) recv(tensor, /*src=*/0);
//
// A send meets a receive of the same tag, in the order in which they are called; shape and dtype
// are those of both.  What collectives.h says of tensors, errors, ranks and threads holds here;
// "gloo" takes tensors on the CPU alone.  With TORCH_DISTRIBUTED_DEBUG=DETAIL a receive from any
// rank receives when it is waited for, and its send ends then.
#pragma once

#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "distrun/group.h"
#include "distrun/work.h"

namespace distrun {

struct PointToPointOptions {
  Group group = {};
  int tag = 0;
};

// Returns when the tensor may be changed again: it need not have arrived.
void send(const at::Tensor& tensor, AnyRank dst, const PointToPointOptions& options = {});

// Returns when the tensor has arrived.  Without `src`, from whichever rank sends first.
// The result is the global rank that has sent it; -1 on a rank that is not in the group.
int recv(const at::Tensor& tensor, std::optional<AnyRank> src = std::nullopt,
         const PointToPointOptions& options = {});

// The same without waiting.
Work isend(const at::Tensor& tensor, AnyRank dst, const PointToPointOptions& options = {});
Work irecv(const at::Tensor& tensor, std::optional<AnyRank> src = std::nullopt,
           const PointToPointOptions& options = {});

// One of several operations that are begun together.
struct P2POp {
  enum class Kind { kSend, kReceive };

  Kind kind = Kind::kSend;
  at::Tensor tensor;
  AnyRank peer = 0;
  PointToPointOptions options = {};
};

// Begins them all, in this order, when each has been found to make sense, and returns what to wait
// for.  They are of one group, and peers are named: it is not for receives from any rank.
std::vector<Work> batch_isend_irecv(const std::vector<P2POp>& operations);

}  // namespace distrun
