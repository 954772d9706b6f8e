// After an update, each rank tells the others whether it failed, so that all throw.
#pragma once

#include <cstddef>
#include <exception>
#include <string>

#include "distrun/group.h"
#include "parallel/optim/optimizer_facts.h"
#include "parallel/optim/parameter_sync.h"

namespace distrun::internal {

// The exception of an update on this rank, if it failed.
struct StepFailure {
  std::exception_ptr thrown;
  std::string text;
};

// Calls `act`, and returns its exception.
template <class Act>
StepFailure failure_of(const Act& act) {
  try {
    act();
  } catch (const std::exception& thrown) {
    return {std::current_exception(), text_of_exception(thrown)};
  } catch (...) {
    return {std::current_exception(), "an exception that does not derive from std::exception"};
  }
  return {};
}

// Whether ranks of this group can report: otherwise, a GPU would have to wait.
bool has_cpu_backend(const Group& group);

// Of what the ranks must have in common to send their shares.
std::size_t hash_of(const Shares& shares);

// Returns whether any rank of the group failed. Every rank must call it, with the same hash.
//
// Throws: c10::ValueError on every rank if the hashes differ.
bool has_any_rank_failed(const StepFailure& own, std::size_t hash, const Group& group);

// Throws this rank's failure, or a c10::DistError with the failure of the first rank that has one.
// Every rank must call it.
[[noreturn]] void throw_failure_of_step(const StepFailure& own, const Group& group);

}  // namespace distrun::internal
