// For tests: runs a program to its end, with a timeout, and captures its output.
//
//     ProgramResult result = run_program({"build/distrun", "launch", "true"});
//     EXPECT_EQ(result.end, ProcessEnd(ExitedWith{0}));
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "common/os/environment.h"
#include "distrun/process_end.h"

namespace distrun::testing {

struct ProgramResult {
  ProcessEnd end = ExitedWith{0};
  bool timed_out = false;  // It was killed; see `end`.
  std::string out, err;
};

struct ProgramOptions {
  Environment environment;  // Added to the test's own.
  int timeout_s = 60;
  // Called after each output, with all output so far; `pid` is the program's.
  std::function<void(const std::string& out, int pid)> on_output;
};

// `arguments` starts with the program: a path, or a name on PATH.
ProgramResult run_program(const std::vector<std::string>& arguments,
                          const ProgramOptions& options = {});

}  // namespace distrun::testing
