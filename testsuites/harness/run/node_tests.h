// Compares the tests that two nodes have loaded.
//
//     if (auto same = check_same_tests(tests, others, /*node=*/1); !same) return same.error();
//
// Fails with kInvalidArgument: "node 1 does not have the test gloo.CommTest.test_sum; …". Where a
// test is in the source does not matter.
//
// Pure.
#pragma once

#include <vector>

#include "distrun/result.h"
#include "testsuites/harness/run/planned_test.h"

namespace distrun {

Result<void> check_same_tests(const std::vector<LoadedTest>& here,
                              const std::vector<LoadedTest>& there, int node);

}  // namespace distrun
