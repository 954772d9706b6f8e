// What a rank reports of its test: assertions that failed, collectives that it ran.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace distrun {

struct AssertionFailure {
  std::string file;  // Empty where it is not known.
  int line = 0;
  std::string message;  // GoogleTest's, of several lines.
};

// Collectives of one kind that a rank ran, as c10d's flight recorder saw them.
struct Collective {
  std::string op;                                // "allreduce"
  std::vector<std::vector<std::int64_t>> sizes;  // Of the inputs.
  std::string dtype;                             // "Float"
  int count = 0;
};

}  // namespace distrun
