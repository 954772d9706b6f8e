// The signal that asks a rank where it stands.
#pragma once

#include <csignal>

namespace distrun {

// And the one behind it is for the rank's own use.
inline int where_signal() { return SIGRTMIN + 9; }

}  // namespace distrun
