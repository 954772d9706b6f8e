// The distributed tests of this program: what DISTRIBUTED_TEST has made known.
#pragma once

#include <vector>

#include "testsuites/harness/test_info.h"

namespace distrun {

// In the order in which they were made known: within a file, from top to bottom.
const std::vector<TestInfo>& registered_tests();

}  // namespace distrun
