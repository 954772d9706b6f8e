// TestInfo describes a distributed test to `distrun test`: its id, and what the test needs to run.
//
//     TestInfo test{.id = "gloo.CommTest.test_sum", .needs = {.ranks = 4}};
//     parts_of(test.id).suite;  // "gloo"
//
// A test program sends a list of TestInfo objects to `distrun test`, as JSON.  DISTRIBUTED_TEST
// (testing.h) creates them.
#pragma once

#if __cplusplus < 202002L
#error "distrun needs C++20: compile with -std=c++20"
#endif

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "distrun/process_end.h"

namespace distrun {

// The maximum number of ranks of a test.
inline constexpr int kRanksMax = 4096;

// The needs of a test.  Use designated initializers for the fields that you change: {.ranks = 4}.
struct TestNeeds {
  int ranks = 1;  // The number of ranks, at most kRanksMax.
  // If 0, the test always has `ranks` ranks.  Otherwise ranks_max must be at least `ranks`, and
  // `distrun test --nproc` may choose any number from `ranks` to `ranks_max`.  Without --nproc, the
  // test has `ranks` ranks.
  int ranks_max = 0;
  int min_gpus = 0;  // On a machine with fewer GPUs, the test is skipped.
  std::vector<std::string> backends = {"gloo"};  // Without --backend, the first one is used.
  // The time limit of the test, from 1 ms to 1e12 ms.  Not set: the limit of `distrun test
  // --timeout`.
  std::optional<std::chrono::milliseconds> timeout = {};
  bool exclusive = false;  // If true, no other test runs at the same time.
  // If false, the test fails if its ranks run different collectives, even if every rank passes.  If
  // true, such a test passes.  The collectives of a test with `expected_ends` are not compared.
  bool collectives_may_differ = false;
  // The ranks that must die, and how each of them must end.
  std::map<int, ProcessEnd> expected_ends = {};
};

// A test.
struct TestInfo {
  std::string id;    // "suite.Class.test"
  TestNeeds needs;   // The needs of the test.
  std::string file;  // The source file that defines it.
  int line = 0;      // The line in that file.
};

// The parts of an id.
struct TestIdParts {
  // For the id "suite.Class.test": "suite", "Class" and "test".
  std::string_view suite, test_class, name;
};

// Splits an id.  Missing parts are empty.  The result refers to the text of `id`.
TestIdParts parts_of(std::string_view id);

}  // namespace distrun
