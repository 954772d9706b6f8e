// The distributed tests of this program: what DISTRIBUTED_TEST has made known.
#pragma once

#include <string>
#include <vector>

#include "distrun/test_info.h"

namespace distrun {

// In the order in which they were made known: within a file, from top to bottom.
const std::vector<TestInfo>& registered_tests();

// Ids of GoogleTest's other tests in this program, which nobody would run: TEST(), TEST_P(), …
std::vector<std::string> other_tests();

}  // namespace distrun
