// The signals that ask a rank what it is doing.
#pragma once

#include <csignal>

namespace distrun {

// For its stack and collectives. The next signal, where_signal() + 1, is for the rank's internal
// use.
inline int where_signal() { return SIGRTMIN + 9; }

// For its current collective only. The rank goes on.
inline int collective_signal() { return SIGRTMIN + 11; }

}  // namespace distrun
