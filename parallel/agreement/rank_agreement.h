// Compares descriptions of what all ranks must have in common, such as a module.
#pragma once

#include <string>

#include "distrun/group.h"

namespace distrun::internal {

// What a rank has: a description, whose lines are compared, or why it has none.
struct RankDescription {
  std::string lines;  // Each with a line break at its end.
  std::string error;  // Empty if there is none.
};

// Throws the same c10::ValueError on every rank if a rank has an error, or if descriptions differ:
// "NAME: rank 1 has LINE, and rank 0 has LINE; all ranks must REQUIREMENT". Every rank of the group
// must call it.
void check_agreement(const std::string& name, const RankDescription& own, const Group& group,
                     const std::string& requirement);

}  // namespace distrun::internal
