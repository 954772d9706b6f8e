#pragma once

#include <string>

namespace distrun {

// The name of this machine, or "this host" if the kernel does not tell.
std::string host_name();

}  // namespace distrun
