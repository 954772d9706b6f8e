// Tests as the runner gets them: those that programs have, and those that it is to run.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "distrun/test_info.h"

namespace distrun {

// A test of one of the programs.
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
  std::chrono::milliseconds expected{0};  // How long it will take; 0: not known.
  std::string skip_reason;                // Not empty: it is not started.
  std::string repeat_command;
};

struct TestPlan {
  struct Turn {
    std::uint32_t test = 0;  // Of `tests`.
    int repetition = 0;
  };
  std::vector<PlannedTest> tests;
  std::vector<Turn> turns;  // What is run, in this order; none: each test once.
  int jobs = 0;             // Ranks at a time; 0: as many as the runner's options say.
};

}  // namespace distrun
