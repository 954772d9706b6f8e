// The tests that DISTRIBUTED_TEST has registered in this program.
#pragma once

#include <string>
#include <vector>

#include "distrun/test_info.h"

namespace distrun {

// In order of registration: within a file, from top to bottom.
const std::vector<TestInfo>& registered_tests();

// Ids of this program's other GoogleTest tests (TEST(), TEST_P(), …), which would never run.
std::vector<std::string> other_tests();

}  // namespace distrun
