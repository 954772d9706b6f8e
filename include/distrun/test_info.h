// Describes a distributed test to the runner: its id, its ranks and its needs.
//
//     TestInfo test{.id = "gloo.CommTest.test_sum", .needs = {.ranks = 4}};
//     parts_of(test.id).suite;  // "gloo"
//
// A test program prints a list of these as JSON.
#pragma once

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

// The needs of a test.  Name the fields that differ from their defaults.
struct TestNeeds {
  int ranks = 1;  // At most kRanksMax.
  // 0, or at least `ranks`: the test runs with any number of ranks up to this one (--nproc).
  int ranks_max = 0;
  int min_gpus = 0;                              // With fewer GPUs the test is skipped.
  std::vector<std::string> backends = {"gloo"};  // The first is used, unless --backend is given.
  // Positive, at most 1e12 ms.  Not set: the runner's timeout.
  std::optional<std::chrono::milliseconds> timeout = {};
  bool exclusive = false;  // No other test runs at the same time.
  // A test that passes may have run different collectives on its ranks.  Otherwise it fails.
  bool collectives_may_differ = false;
  // How these ranks end, if not normally, in a fault test.
  std::map<int, ProcessEnd> expected_ends = {};
};

// A test.
struct TestInfo {
  std::string id;    // "suite.Class.test"
  TestNeeds needs;   // Its needs.
  std::string file;  // The source file that defines it,
  int line = 0;      // and the line.
};

// The parts of an id.
struct TestIdParts {
  // "suite", "Class", "test".
  std::string_view suite, test_class, name;
};

// Splits an id; missing parts are empty.
TestIdParts parts_of(std::string_view id);

}  // namespace distrun
