// This machine's name, for people.
#pragma once

#include <string>

namespace distrun {

// As gethostname() has it; "this host" if it fails.
std::string host_name();

}  // namespace distrun
