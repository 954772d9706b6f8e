// Messages of a worker to its parent, as packets of the control socket: it has started; how its
// function ended. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

namespace distrun::internal {

// The worker has started its function or, if fresh, waits for its call.
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

// Cuts the type at 1 KiB and the text at 64 KiB to fit into a packet.
std::string to_packet(const WorkerMessage& report);

// Empty if `bytes` is not a message.
std::optional<WorkerMessage> parse_worker_message(std::string_view bytes);

}  // namespace distrun::internal
