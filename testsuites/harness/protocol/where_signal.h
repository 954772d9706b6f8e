// The signal that asks a rank for its stack traces.
#pragma once

#include <csignal>

namespace distrun {

// The next signal, where_signal() + 1, is for the rank's internal use.
inline int where_signal() { return SIGRTMIN + 9; }

}  // namespace distrun
