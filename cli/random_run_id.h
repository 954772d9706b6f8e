#pragma once

#include <string>

namespace distrun {

// A UUID for a run, like torchrun's.
std::string random_run_id();

}  // namespace distrun
