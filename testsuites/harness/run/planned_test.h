// The tests of programs, and the tests that the runner will run.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "distrun/test_info.h"

namespace distrun {

struct LoadedTest {
  TestInfo test;
  std::size_t program = 0;
};

struct PlannedTest {
  TestInfo test;
  std::size_t program = 0;
  int ranks = 1;
  std::string backend;
  std::chrono::milliseconds timeout{0};
  std::chrono::milliseconds expected{0};  // Estimated time; 0 if unknown.
  std::string skip_reason;                // If not empty, the test is not started.
  std::string repeat_command;
};

struct TestPlan {
  struct Turn {
    std::uint32_t test = 0;  // Index into `tests`.
    int repetition = 0;
  };
  std::vector<PlannedTest> tests;
  std::vector<Turn> turns;  // The order of execution; empty: each test runs once.
  int jobs = 0;             // Ranks at a time; 0: the runner's option.
};

}  // namespace distrun
