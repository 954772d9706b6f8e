// Describes a distributed test to the runner: its id, its ranks and its needs.
//
//     TestInfo test{.id = "gloo.CommTest.test_sum", .needs = {.ranks = 4}};
//     parts_of(test.id).suite;  // "gloo"
//
// A test program sends a list of these as JSON to `distrun test`.
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

// The most ranks that a test may have.
inline constexpr int kRanksMax = 4096;

// The needs of a test.  Use designated initializers for the fields that you change: {.ranks = 4}.
struct TestNeeds {
  int ranks = 1;  // At most kRanksMax.
  // 0: the test always has `ranks` ranks.  Otherwise at least `ranks`: `distrun test --nproc` may
  // choose any number from `ranks` to `ranks_max`.  Without --nproc the test has `ranks` ranks.
  int ranks_max = 0;
  int min_gpus = 0;  // On a machine with fewer GPUs the test is skipped.
  std::vector<std::string> backends = {"gloo"};  // Without --backend, the first is used.
  // The time limit of the test: positive, at most 1e12 ms.  Not set: that of `distrun test
  // --timeout`.
  std::optional<std::chrono::milliseconds> timeout = {};
  bool exclusive = false;  // No other test runs at the same time.
  // If false, a test fails if its ranks ran different collectives, even if every rank passed.  If
  // true, it passes.  Tests with `expected_ends` are not compared.
  bool collectives_may_differ = false;
  // The ranks that must die, each with the way in which it must end.
  std::map<int, ProcessEnd> expected_ends = {};
};

// A test.
struct TestInfo {
  std::string id;    // "suite.Class.test"
  TestNeeds needs;   // Its needs.
  std::string file;  // The source file that defines it.
  int line = 0;      // The line in that file.
};

// The parts of an id.
struct TestIdParts {
  // "suite", "Class", "test".
  std::string_view suite, test_class, name;
};

// Splits an id; missing parts are empty.
TestIdParts parts_of(std::string_view id);

}  // namespace distrun
