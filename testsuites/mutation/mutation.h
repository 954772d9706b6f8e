// Groups that misbehave on purpose, to test test suites.
//
//     c10::intrusive_ptr<c10d::Backend> group = mutated(make_gloo_backend(…));
//
//     $ DISTRUN_MUTATION=wrong_root distrun test gloo     # must fail
//
// A suite passes each group through mutated(). Without the variable, that returns the group itself;
// with it, a wrapper, which is a c10d::Backend but not a c10d::ProcessGroupGloo. Arguments are
// still checked.
//
//     wrong_root        broadcast, reduce, gather, scatter use the rank after the root; the true
//                       root's outputs keep their values
//     dropped_wait      collectives and recv complete as soon as they start, without an error, and
//                       their data never arrives
//     missing_division  AVG is SUM
//     stale_output      on rank 1 the outputs of every operation keep their values
//     wrong_reduce_op   SUM becomes PRODUCT, PRODUCT SUM, MIN MAX, MAX MIN, AVG MAX, BAND BOR,
//                       BOR BXOR, BXOR BAND; sparse tensors keep SUM, the only op they support
//
// With one rank, wrong_root and stale_output change nothing.
#pragma once

#include <optional>
#include <string>

#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace distrun {

inline constexpr const char* kMutationVariable = "DISTRUN_MUTATION";

enum class Mutation { kWrongRoot, kDroppedWait, kMissingDivision, kStaleOutput, kWrongReduceOp };

// nullopt for an unknown name.
std::optional<Mutation> mutation_named(const std::string& name);

// Applies the mutation that DISTRUN_MUTATION names; returns `backend` itself if it is unset or
// empty. Throws std::invalid_argument for an unknown name.
c10::intrusive_ptr<c10d::Backend> mutated(c10::intrusive_ptr<c10d::Backend> backend);

c10::intrusive_ptr<c10d::Backend> mutated(c10::intrusive_ptr<c10d::Backend> backend,
                                          Mutation mutation);

}  // namespace distrun
