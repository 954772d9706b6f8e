// The signal that asks a rank for its stack traces.
#pragma once

#include <csignal>

namespace distrun {

// The rank uses the next signal, where_signal() + 1, internally.
inline int where_signal() { return SIGRTMIN + 9; }

}  // namespace distrun
