// The address at which a run of `distrun launch` answers other processes: an abstract Unix socket,
// named after its process ids. It has no file and vanishes with its process.
//
//     for (const RunAddress& run : runs_here()) …
//
// Visible only within one network namespace.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

namespace distrun {

struct RunAddress {
  std::uint64_t pid_namespace = 0;  // The pids are valid there.
  pid_t guard = -1;                 // The process that the user started (guard.h).
  pid_t launcher = -1;              // The process that watches the workers.

  friend bool operator==(const RunAddress&, const RunAddress&) = default;
};

// This process's pid namespace.
std::uint64_t own_pid_namespace();

// The name without the leading zero byte: "distrun/run/4026531836/4710/4711".
std::string socket_name(const RunAddress& run);

// nullopt for other sockets.
std::optional<RunAddress> run_address_from(std::string_view name);

// The runs of all users in this process's pid namespace, by the guard's pid. Reads /proc/net/unix.
std::vector<RunAddress> runs_here();

}  // namespace distrun
