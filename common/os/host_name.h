// This machine's name, for display.
#pragma once

#include <string>

namespace distrun {

// Returns "this host" if gethostname() fails.
std::string host_name();

}  // namespace distrun
