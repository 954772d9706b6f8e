// Runs one rank of a test in this process, a fork of the test host or a fresh execution.
//
//     run_rank("gloo.CommTest.test_sum", UniqueFd(result_fd));
//
// Forks of the test can only report failures: only the rank can finish its test.
#pragma once

#include <string>

#include <pthread.h>

#include "common/os/unique_fd.h"
#include "testsuites/harness/protocol/test_facts.h"

namespace distrun {

// The id and the result channel's descriptor, for a fresh execution.
inline constexpr const char* kRankOfVariable = "DISTRUN_TEST_RANK_OF";
inline constexpr const char* kResultVariable = "DISTRUN_TEST_RESULT";

// Assertions in this process so far.
int assertions_made();

// Calls run_rank() if this process was executed as a rank.
void run_rank_if_asked();

// Runs the test, then exits.
[[noreturn]] void run_rank(const std::string& id, UniqueFd result);

// Ends the rank from any thread except `thread`, and reports the failure and `thread`'s stack. In
// other processes, the failure goes to stderr.
[[noreturn]] void fail_rank(const AssertionFailure& failure, pthread_t thread);

}  // namespace distrun
