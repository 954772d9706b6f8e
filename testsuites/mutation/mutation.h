// Groups that misbehave on purpose, to see that a suite of tests notices.
//
//     c10::intrusive_ptr<c10d::Backend> group = mutated(make_gloo_backend(…));
//
//     $ DISTRUN_MUTATION=wrong_root distrun test gloo     # has to fail
//
// A suite makes its groups in one place, which passes them through mutated().  Without the variable
// that is nothing: the group itself is returned.  With it the group is wrapped, so it is no longer
// a c10d::ProcessGroupGloo; what can be done with it is what c10d::Backend declares.  Arguments are
// still checked as ever.
//
//     wrong_root        broadcast, reduce, gather, scatter use the rank after the root; the true
//                       root's outputs stay as they were
//     dropped_wait      a collective and recv are complete as soon as they have begun, without
//                       error, and what they bring never arrives
//     missing_division  AVG is SUM
//     stale_output      on rank 1 the outputs of every operation stay as they were
//     wrong_reduce_op   SUM is PRODUCT, PRODUCT SUM, MIN MAX, MAX MIN, AVG MAX, BAND BOR, BOR BXOR,
//                       BXOR BAND; sums of sparse tensors are left alone, for no other op has them
//
// In a group of one rank wrong_root and stale_output change nothing.
#pragma once

#include <optional>
#include <string>

#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace distrun {

inline constexpr const char* kMutationVariable = "DISTRUN_MUTATION";

enum class Mutation { kWrongRoot, kDroppedWait, kMissingDivision, kStaleOutput, kWrongReduceOp };

// Nothing for a name that no mutation has.
std::optional<Mutation> mutation_named(const std::string& name);

// As DISTRUN_MUTATION says: `backend` itself where it is not set or empty.  Throws
// std::invalid_argument where it names no mutation.
c10::intrusive_ptr<c10d::Backend> mutated(c10::intrusive_ptr<c10d::Backend> backend);

c10::intrusive_ptr<c10d::Backend> mutated(c10::intrusive_ptr<c10d::Backend> backend,
                                          Mutation mutation);

}  // namespace distrun
