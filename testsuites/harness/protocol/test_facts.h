// A rank's report about its test: failed assertions, collectives, and their times.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/wall_time.h"

namespace distrun {

// The message of a rank's last failure begins with this if an exception ended its process.
inline constexpr std::string_view kUncaughtException = "uncaught exception: ";

struct AssertionFailure {
  std::string file;  // Empty if unknown.
  int line = 0;
  std::string message;  // GoogleTest's, several lines.
  std::optional<WallTime> at = std::nullopt;
};

// Collectives of one kind, from c10d's flight recorder.
struct Collective {
  std::string op;                                // "allreduce"
  std::vector<std::vector<std::int64_t>> sizes;  // Of the inputs.
  std::string dtype;                             // "Float"
  int count = 0;
};

// Consecutive equal collectives of a rank in a group.
struct CollectiveStretch {
  std::string group;        // The same on every rank: "0".
  std::string description;  // "default_pg"
  Collective collective;    // With their number.
  bool has_ended = true;    // False: the last one has not completed.
};

// A collective, send or receive, from start to completion.
struct TimedOperation {
  std::string op;       // "allreduce"
  std::string tensors;  // The inputs: "Float [4, 2]".
  WallTime began;
  std::optional<WallTime> ended;
  bool end_is_unknown = false;  // If `ended` is not set: true if it has completed.

  bool has_completed() const { return ended || end_is_unknown; }
};

// The last operations that a rank has started, in order.
struct OperationTimes {
  std::vector<TimedOperation> operations;
  int left_out = 0;  // Earlier ones.
};

// The collectives that a rank has started.
struct CollectiveRecord {
  std::vector<Collective> counted;           // By kind.
  std::vector<CollectiveStretch> stretches;  // Ordered within each group.
  bool is_whole = true;                      // False: `stretches` lacks some.
  OperationTimes times = {};
};

}  // namespace distrun
