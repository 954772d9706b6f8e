// A rank's report about its test: failed assertions and collectives.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace distrun {

struct AssertionFailure {
  std::string file;  // Empty if unknown.
  int line = 0;
  std::string message;  // GoogleTest's, several lines.
};

// Collectives of one kind, as c10d's flight recorder saw them.
struct Collective {
  std::string op;                                // "allreduce"
  std::vector<std::vector<std::int64_t>> sizes;  // Of the inputs.
  std::string dtype;                             // "Float"
  int count = 0;
};

}  // namespace distrun
