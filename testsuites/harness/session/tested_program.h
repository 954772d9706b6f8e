// A program that is a test as a whole: each rank executes it, and its exit status is the result.
//
//     TestedProgram test{.command = {"./check", "--size", "4"}, .ranks = 2};
//     host_of(test);  // {"/proc/self/exe", "test-program-host", "2", "./check", "--size", "4"}
//
// The test host is distrun itself (harness/host/test_host.h).
#pragma once

#include <string>
#include <vector>

#include "distrun/test_info.h"

namespace distrun {

// A command of distrun that only distrun calls.
inline constexpr const char* kProgramHostCommand = "test-program-host";

struct TestedProgram {
  std::vector<std::string> command;
  int ranks = 2;
};

// "check.Program.main". Pure.
TestInfo test_info_of(const TestedProgram& test);

// The command by which distrun starts its test host. Pure.
std::vector<std::string> host_of(const TestedProgram& test);

// Serves the runner, as the test host. `words` follow kProgramHostCommand.
[[noreturn]] void serve_tested_program(const std::vector<std::string>& words);

}  // namespace distrun
