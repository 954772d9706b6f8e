// HostAgent is distrun on a host of `--hosts`: it runs a command of distrun there, such as `distrun
// launch`, with the order that it reads from stdin.
//
//     return run_host_agent();              // The exit status of that command.
//
// The connection is a lifeline: when stdin ends, or brings nothing for kSilenceMax, the command
// gets SIGTERM, which ends its processes, and SIGKILL if it has not ended after HostOrder::end_max.
// If the agent is killed, so is the command. The command does not read flags from variables of the
// host.
#pragma once

#include <chrono>

namespace distrun {

inline constexpr std::chrono::seconds kAliveEvery{5};
inline constexpr std::chrono::seconds kSilenceMax{20};

// Prints errors to stderr.
int run_host_agent();

}  // namespace distrun
