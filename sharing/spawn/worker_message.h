// What a process says to the one that has started it, as packets of its control socket: that it has
// begun, and how its function has ended.  Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

namespace distrun::internal {

// run_if_spawned() has been called.
struct WorkerHasBegun {
  friend bool operator==(const WorkerHasBegun&, const WorkerHasBegun&) = default;
};
struct WorkerHasReturned {
  friend bool operator==(const WorkerHasReturned&, const WorkerHasReturned&) = default;
};
struct WorkerHasRaised {
  std::string type;
  std::string text;
  std::int64_t at = 0;  // CLOCK_MONOTONIC, in nanoseconds: the same in all processes.
  friend bool operator==(const WorkerHasRaised&, const WorkerHasRaised&) = default;
};
using WorkerMessage = std::variant<WorkerHasBegun, WorkerHasReturned, WorkerHasRaised>;

// Of the type at most 1 KiB and of the text 64 KiB: a packet has a bound.
std::string to_packet(const WorkerMessage& report);

// Nothing for bytes that are no report.
std::optional<WorkerMessage> parse_worker_message(std::string_view bytes);

}  // namespace distrun::internal
