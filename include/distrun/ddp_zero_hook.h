// hook_with_zero_step() lets backward() of a DistributedDataParallel do what step() of a
// ZeroRedundancyOptimizer does: it updates the parameters, and sends them to the other ranks.  The
// updates of some buckets overlap with the reduction of others.
//
//     DistributedDataParallel ddp(std::make_shared<Net>());
//     ZeroRedundancyOptimizer<torch::optim::Adam> zero(ddp.parameters(), 1e-3,
//                                                      {.overlap_with_ddp = true});
//     ddp.register_comm_hook(
//         hook_with_zero_step(with_state(Group(), allreduce_hook), ddp.reducer(), zero));
//     for (const auto& [inputs, targets] : share_of(get_rank())) {
//       zero.zero_grad();
//       loss(ddp(inputs), targets).backward();          // Also updates the parameters.
//     }
//
// The results are those of the same loop with zero.step() and without the option, from the first
// backward() on.  Each backward() that reduces gradients updates each parameter once.  Under
// no_sync(), gradients accumulate, and nothing is updated.  grad() has the reduced gradients after
// backward(), as usual.  Change options, for example with a scheduler, between two backward().
// Gradients cannot be clipped before the update.
//
// The optimizer can be any class that treats each parameter alone, such as SGD, Adam, AdamW,
// RMSprop or Adagrad.  backward() calls step() of this class once for each bucket, with the
// parameters of the bucket.  The wrapped hook can be any hook (comm_hook.h) that computes the same
// gradients on all ranks.
//
//   - Parameters of the DistributedDataParallel that the optimizer does not have keep their values.
//     Their grad() is reduced, for another optimizer.
//   - Of a static_graph, parameters that no rank uses in the first backward() are not updated.
//   - If find_unused_parameters is set, and in the first backward() of a static_graph, nothing
//     overlaps: which parameters are used on any rank is known only after the reduction.
//   - Otherwise, each backward() must compute a gradient for each parameter.  If one is missing, no
//     error occurs until the next forward, which throws c10::Error, as without the hook.
//   - A DistributedDataParallel with this hook cannot take part in a Join (join.h).
//
// If an update throws on a rank, backward() throws on every rank, as
// ZeroRedundancyOptimizer::step() does, and the next backward() can run.
//
// Register the hook with the DistributedDataParallel whose reducer() it has.  With another one,
// backward() throws c10::Error.  Keep the optimizer as long as the DistributedDataParallel trains.
//
// Blocks: the functions block until every rank has called them.  backward() blocks until this rank
// has the parameters of all ranks.  With "nccl", backward() only enqueues the work.
// Throws: c10::ValueError on every rank if the optimizer does not have overlap_with_ddp, if it has
// a parameter that the DistributedDataParallel does not reduce, if both have different ranks, if a
// gradient is sparse, if DdpOptions::mixed_precision has a `param_dtype` or converts gradients, or
// if ranks have the parameters in different orders.
// Thread safety: one thread at a time.
// Cost: as ZeroRedundancyOptimizer::step(), in each backward().  Each rank sends the parameters of
// each bucket alone.
// PyTorch source: torch/distributed/algorithms/ddp_comm_hooks/ddp_zero_hook.py.
#pragma once

#include "distrun/comm_hook.h"
#include "distrun/ddp_reducer.h"
#include "distrun/zero_redundancy_optimizer.h"

namespace distrun {

namespace internal {

// When the parameters of a bucket are updated.
enum class ZeroStepOrder { kAfterLastBucket, kInterleaved };

CommHook zero_hook(const CommHook& hook, DdpReducer& ddp, ZeroRedundancyCore& zero,
                   ZeroStepOrder order);

}  // namespace internal

// Returns a hook that reduces the gradients with `hook`.  When backward() has computed all
// gradients, it updates the parameters of one bucket after the other.  The buckets that are still
// being reduced overlap with these updates.  Use it if communication takes longer than computation.
template <class Optimizer>
CommHook hook_with_zero_step(const CommHook& hook, DdpReducer& ddp,
                             ZeroRedundancyOptimizer<Optimizer>& zero) {
  return internal::zero_hook(hook, ddp, zero.core(), internal::ZeroStepOrder::kAfterLastBucket);
}

// Returns a hook that reduces the gradients with `hook`.  When backward() has computed the
// gradients of a bucket, it waits for the reduction of the bucket before, and updates its
// parameters.  So updates overlap with the rest of backward(), which waits for the network.  Use it
// if computation takes longer than communication.
//
// If autograd needs the value of a parameter after its update, backward() throws c10::Error.  This
// can happen if a forward also uses the parameter's detach().  Do not use the parameter's data()
// instead, because autograd does not see that its values change.
//
// If backward() throws before its end, for example in an operator of the model or because of a lost
// peer, or if a gradient is missing, ranks may have updated parameters that other ranks have not
// received.  The parameters then differ between ranks.  Load a checkpoint before you train on.  An
// update that throws does not have this effect.
//
// If `hook` completes the future of a bucket only when a later bucket comes, as powerSGD_hook does,
// the updates follow the last bucket.  A hook of your own that does so makes backward() throw some
// time after the timeout of the group.
template <class Optimizer>
CommHook hook_with_zero_step_interleaved(const CommHook& hook, DdpReducer& ddp,
                                         ZeroRedundancyOptimizer<Optimizer>& zero) {
  return internal::zero_hook(hook, ddp, zero.core(), internal::ZeroStepOrder::kInterleaved);
}

}  // namespace distrun
