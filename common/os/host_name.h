// This machine's name, for display.
#pragma once

#include <string>

namespace distrun {

// The result of gethostname(); "this host" if it fails.
std::string host_name();

}  // namespace distrun
