// TestInfo describes a distributed test to `distrun test`.  It has the id of the test, and lists
// what the test needs to run.
//
//     TestInfo test{.id = "gloo.CommTest.test_sum", .needs = {.ranks = 4}};
//     parts_of(test.id).suite;  // "gloo"
//
// A test program sends a list of TestInfo objects to `distrun test`, as JSON.  DISTRIBUTED_TEST
// (testing.h) creates these objects.
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
  // If `ranks_max` is 0, the test always has `ranks` ranks.  Otherwise, `ranks_max` must be at
  // least `ranks`, and `distrun test --nproc` may choose any number from `ranks` to `ranks_max`.
  // Without --nproc, the test has `ranks` ranks.
  int ranks_max = 0;
  int min_gpus = 0;  // The test is skipped on a machine with fewer GPUs.
  std::vector<std::string> backends = {"gloo"};  // The first is the default.
  // The time limit of the test, from 1 ms to 1e12 ms.  If `timeout` is not set, the limit of
  // `distrun test --timeout` applies.
  std::optional<std::chrono::milliseconds> timeout = {};
  bool exclusive = false;  // If true, no other test runs at the same time.
  // If false, `distrun test` compares the collectives of the ranks.  If the ranks run different
  // collectives, the test fails, even if every rank passes.  In a test with `expected_ends`,
  // collectives are never compared.
  bool collectives_may_differ = false;
  // The ranks that must die in the test, and how each of them must end.
  std::map<int, ProcessEnd> expected_ends = {};

  bool operator==(const TestNeeds&) const = default;  // True if every need is the same.
};

// A test.
struct TestInfo {
  std::string id;    // The id: "suite.Class.test".
  TestNeeds needs;   // The needs of the test.
  std::string file;  // The source file that defines the test.
  int line = 0;      // The line in `file`.
};

// The parts of an id.
struct TestIdParts {
  // For the id "suite.Class.test": "suite", "Class" and "test".
  std::string_view suite, test_class, name;
};

// Splits an id.  Missing parts are empty.  The result refers to the characters of `id`.
TestIdParts parts_of(std::string_view id);

}  // namespace distrun
