// Turns selected tests into a plan: each with its ranks, backend, timeout, and the reason to skip
// it, if any.
//
//     TestPlan plan = plan_tests(tests, {.gpus = 0, .repeat = 2}, history);
//
// Skips are decided before anything starts: too few GPUs, or an unsupported backend or number of
// ranks. A test with a fixed number of ranks keeps it. Pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "testsuites/harness/run/test_runner.h"
#include "testsuites/harness/select/selection.h"
#include "testsuites/harness/session/history.h"

namespace distrun {

struct PlanOptions {
  int cpus = 1, gpus = 0;  // Of this machine.
  // Ranks may share GPUs; one GPU is then enough for any test.
  bool share_gpus = false;
  int jobs = 0;         // Ranks at a time; 0: twice the cores, or more for the largest test.
  int nproc = 0;        // Ranks of tests that accept a range; 0: not set.
  std::string backend;  // For tests with several; empty: each test's first.
  std::chrono::milliseconds timeout = std::chrono::seconds(60);
  int repeat = 1;
  bool collectives_may_differ = false;  // In every test.
  bool shuffle = false;
  std::uint64_t seed = 1234;
  // For repeat commands:
  bool fresh = false;  // --isolation exec.
  bool ignore_leaks = false, no_skips = false;
  std::vector<std::string> binaries;  // As given.
  // Likewise, what follows --: {"python3", "test_mine.py"}.
  std::vector<std::string> command;
};

// Runs the failed tests of a run again: "distrun test --failed --timeout 5 gloo".
std::string repeat_failed_command(const PlanOptions& options, const TestSelection& selection);

// Each repetition runs all tests before the next one starts.
TestPlan plan_tests(const std::vector<LoadedTest>& tests, const PlanOptions& options,
                    const History& history);

}  // namespace distrun
