// HostAgent is distrun on a host of `distrun launch --hosts`: it runs `distrun launch` there, with
// the order that it reads from stdin.
//
//     return run_host_agent();              // The exit status of that launch.
//
// The connection is a lifeline: when stdin ends, or brings nothing for kSilenceMax, the launch gets
// SIGTERM, which ends its workers, and SIGKILL if it has not ended after HostOrder::end_max. If the
// agent is killed, so is the launch. The launch does not read flags from variables of the host.
#pragma once

#include <chrono>

namespace distrun {

inline constexpr std::chrono::seconds kAliveEvery{5};
inline constexpr std::chrono::seconds kSilenceMax{20};

// Prints errors to stderr.
int run_host_agent();

}  // namespace distrun
