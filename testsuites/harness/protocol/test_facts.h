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

// Equal collectives that one rank has started in one group, without another one in between.
struct CollectiveStretch {
  std::string group;        // The same on every rank: "0".
  std::string description;  // "default_pg"
  Collective collective;    // With their number.
  bool has_ended = true;    // False: the last one has not completed.
};

// The collectives that a rank has started.
struct CollectiveRecord {
  std::vector<Collective> counted;           // By kind.
  std::vector<CollectiveStretch> stretches;  // In the order of each group.
  bool is_whole = true;                      // False: `stretches` lacks some.
};

}  // namespace distrun
