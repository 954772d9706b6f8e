// Options of FullyShardedDataParallel.
//
//     FullyShardedDataParallel fsdp(net, {.mp_policy = {.param_dtype = at::kBFloat16,
//                                                       .reduce_dtype = at::kFloat}});
//
// Most options have the names of the arguments of torch.distributed.fsdp.fully_shard.
#pragma once

#include <optional>

#include <c10/core/ScalarType.h>

#include "distrun/group.h"

namespace distrun {

// The dtypes of a computation, as in Python.  A dtype that is not set is the parameters' own.
struct MixedPrecisionPolicy {
  // The dtype of the gathered parameters, and so of the computation.  Each rank keeps its shard,
  // and the optimizer updates it, in the parameters' own dtype.
  std::optional<at::ScalarType> param_dtype = std::nullopt;
  // The dtype in which gradients are reduced.  If it is not set, it is `param_dtype`.
  std::optional<at::ScalarType> reduce_dtype = std::nullopt;
  // The dtype to which floating-point outputs of forward() are converted.  If it is not set,
  // outputs do not change.
  std::optional<at::ScalarType> output_dtype = std::nullopt;
  // Whether floating-point arguments of forward() are converted to `param_dtype`.  Buffers keep
  // their dtype, so a BatchNorm needs the parameters' own dtype; a
  // SyncBatchNorm does not.
  bool cast_forward_inputs = true;
};

// Options of FullyShardedDataParallel.
struct FsdpOptions {
  // The ranks that share the parameters.  The default is all ranks.  All units of a model need the
  // same group.
  Group process_group = {};

  // Whether the unit frees its gathered parameters after forward(), and gathers them again for
  // backward().  With false, a step communicates less and needs more memory.  If it is not set, it
  // is false for the outermost unit, whose parameters backward() needs at once, and true for all
  // others.  After a forward() without gradients, each unit frees its gathered parameters.
  std::optional<bool> reshard_after_forward = std::nullopt;

  // The dtypes of the computation.
  MixedPrecisionPolicy mp_policy = {};

  // If true, the constructor copies the parameters and buffers of group rank 0 to all ranks.  If
  // false, make sure that all ranks have the same values, for example from the same seed.  (In
  // Python, the default is false.)
  bool sync_module_states = true;

  // Whether a unit starts to gather the parameters of the unit that will need them next, while it
  // computes.  In forward(), this is the order of the previous forward(); in backward(), the
  // reverse of it.  With false, one gathered unit less is in memory.
  bool prefetch = true;
};

}  // namespace distrun
