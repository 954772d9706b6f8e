// What a distributed test is to the runner: its id, how many ranks it has, and what it needs.
//
//     TestInfo test{.id = "gloo.CommTest.test_sum", .needs = {.ranks = 4}};
//     parts_of(test.id).suite;  // "gloo"
//
// A test binary says what tests it has as a list of these, in JSON (test_list_json.h).
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "distrun/process_end.h"

namespace distrun {

inline constexpr int kRanksMax = 4096;

// What a test needs, and what it promises.  Every field has a default: name those that differ.
struct TestNeeds {
  int ranks = 1;  // At most kRanksMax.
  // 0, or not less than `ranks`: any number from `ranks` to this one will do (--nproc).
  int ranks_max = 0;
  int min_gpus = 0;  // Fewer, and it is skipped before anything is started.
  std::vector<std::string> backends = {"gloo"};  // It runs with the first, unless --backend says.
  std::optional<std::chrono::milliseconds> timeout =
      {};                  // Above 0, at most 1e12 ms; none: the runner's.
  bool exclusive = false;  // No other test beside it.
  // How ranks are to end that are not to pass: rank 1 of a fault test is to be killed.
  std::map<int, ProcessEnd> expected_ends = {};
};

struct TestInfo {
  std::string id;  // "suite.Class.test"
  TestNeeds needs;
  std::string file;  // Where it is written.
  int line = 0;
};

struct TestIdParts {
  std::string_view suite, test_class, name;
};

// Of "suite.Class.test"; what is not there is empty.
TestIdParts parts_of(std::string_view id);

}  // namespace distrun
