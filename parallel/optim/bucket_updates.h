// The updates of one backward(). The owner of a parameter updates it with the reduced gradient of
// its bucket, and sends it to the other ranks.
//
//     BucketUpdates updates(zero, group_that_reduces, used);
//     updates.add({parameters, future});   // In the hook of each bucket.
//     updates.update_all_but(1);           // May block; updates the earlier buckets.
//     if (updates.has_all()) …             // Backward() has computed all gradients.
//     error = updates.finish();            // At its end.
//
// All collectives start on the thread of backward(), in the order of the buckets, so their order is
// the same on all ranks. A rank that fails still sends its parameters, so no other rank waits.
//
// Thread safety: one thread at a time.
#pragma once

#include <cstddef>
#include <deque>
#include <exception>
#include <unordered_set>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "distrun/comm_hook.h"
#include "distrun/group.h"
#include "parallel/optim/parameter_sync.h"
#include "parallel/optim/step_report.h"
#include "parallel/optim/zero_redundancy_impl.h"

namespace distrun::internal {

using ParameterSet = std::unordered_set<const c10::TensorImpl*>;

struct ReducedBucket {
  std::vector<at::Tensor> parameters;
  Future gradients;      // The reduced gradients of these parameters, as one flat tensor.
  bool is_late = false;  // They are complete only after the hook of a later bucket.
};

class BucketUpdates {
 public:
  // Waits for gradients longer than the timeout of `reducing`. Updates only parameters in `used`.
  //
  // `zero` must live during each call.
  BucketUpdates(ZeroRedundancyCore::Impl& zero, Group reducing, const ParameterSet& used)
      : zero_(zero), reducing_(std::move(reducing)), used_(used), missing_(used) {}

  void add(ReducedBucket bucket);

  // Updates the first buckets, and starts to send their parameters. Leaves the last `count`, and a
  // late bucket with those after it.
  //
  // Blocks: until the gradients of these buckets are reduced.
  void update_all_but(std::size_t count);

  // Updates the other buckets, and waits for the parameters of all ranks. Returns the exception
  // that this rank must throw, if an update of any rank failed.
  //
  // Throws: the exceptions of collectives. Throws the returned exception, too, if gradients are not
  // reduced in time.
  std::exception_ptr finish();

  // Whether each used parameter was in a bucket.
  bool has_all() const { return missing_.empty(); }

 private:
  void update(const ReducedBucket& bucket);
  void update_own(const ReducedBucket& bucket);
  at::Tensor value_of(const Future& gradients);

  ZeroRedundancyCore::Impl& zero_;
  Group reducing_;
  ParameterSet used_, missing_;
  std::deque<ReducedBucket> waiting_;
  std::vector<Future> futures_;  // Of all buckets.
  std::vector<ParameterSync::Sending> sendings_;
  StepFailure failure_;  // The first one of this rank, which updates nothing after it.
  bool is_finishing_ = false;
  bool is_overdue_ = false;  // A future was not complete in time.
};

}  // namespace distrun::internal
