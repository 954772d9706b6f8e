// The steps in which PowerSGD reduces a bucket:
//
//     hook: fills a CompressedBucket, P = M · Q, starts to sum P
//     send_qs: waits for P, Q = Mᵀ · P, starts to sum Q
//     decompress: waits for Q, M = P · Qᵀ
//
// The thread of backward() calls all of them, in the same order on all ranks.  A callback of the
// sum of P would call send_qs at a time that differs between ranks, and the collectives of two
// buckets could be in a different order.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "distrun/power_sgd_hook.h"
#include "distrun/work.h"

namespace distrun::internal {

// Gradients that are compressed together.  All tensors have the sizes [batch, rows, columns].
struct LowRank {
  at::Tensor matrices;
  at::Tensor p, q;
  // The gradients, if `matrices` is a copy of them.
  std::vector<at::Tensor> originals = {};
};

struct CompressedBucket {
  std::int64_t index = 0;
  bool is_last = false;
  int size = 1;          // Of the group.
  at::Tensor gradients;  // The buffer of the bucket.
  at::Tensor input;      // What is compressed: `gradients`, or a longer copy of it.
  at::Tensor before;     // The input before it was compressed; undefined without error feedback.

  std::vector<at::Tensor> whole = {};  // The gradients that are not compressed.
  at::Tensor whole_flat = {};
  Work whole_sum = {};

  std::vector<LowRank> parts = {};
  at::Tensor p_flat = {}, q_flat = {};  // The memory of all P, and of all Q.
  Work p_sum = {}, q_sum = {};

  Future done;  // Completes with `gradients`.
};

// P and Q of a bucket, and the local error, by the index of the bucket.
using TensorOfBucket = std::map<std::int64_t, at::Tensor>;

// Adds the error of the previous iteration to `bucket.input`, and keeps a copy.
void add_error(CompressedBucket& bucket, TensorOfBucket& errors);

void send_qs(CompressedBucket& bucket, const PowerSGDOptions& options);
void decompress(CompressedBucket& bucket);

}  // namespace distrun::internal
