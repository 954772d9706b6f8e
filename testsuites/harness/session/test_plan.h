// What is to be run: tests that were selected become a plan, each with its ranks, its backend, its
// time-out, and the reason why it is not started, if there is one.
//
//     TestPlan plan = plan_tests(tests, {.gpus = 0, .repeat = 2}, history);
//
// Skips are decided here, before anything is started: too few GPUs, a backend or a number of ranks
// that a test does not have.  A test with one number of ranks keeps it.  Pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "testsuites/harness/run/test_runner.h"
#include "testsuites/harness/session/history.h"

namespace distrun {

struct PlanOptions {
  int cpus = 1, gpus = 0;  // This machine's.
  // Ranks may have a GPU together: where there is one, no test has too few.
  bool share_gpus = false;
  int jobs = 0;         // Ranks at a time; 0: twice the cores, or those of the largest test.
  int nproc = 0;        // Replaces the ranks of tests that have a range of them; 0: none.
  std::string backend;  // Of those that have several; empty: each one's first.
  std::chrono::milliseconds timeout = std::chrono::seconds(60);
  int repeat = 1;
  bool shuffle = false;
  std::uint64_t seed = 1234;
  bool fresh = false;                 // --isolation exec: for the command that repeats a test.
  std::vector<std::string> binaries;  // As they were given: for the command that repeats a test.
};

// Repetitions come one after the other: every test once, then every test again.
TestPlan plan_tests(const std::vector<LoadedTest>& tests, const PlanOptions& options,
                    const History& history);

}  // namespace distrun
