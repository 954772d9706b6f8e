// Runs one rank of a test in this process: a fork of the test host, or the program executed afresh.
//
//     run_rank("gloo.CommTest.test_sum", UniqueFd(result_fd));
//
// A test may fork: of its children only the failures are told, for only the rank itself can come to
// the end of its test.
#pragma once

#include <string>

#include <pthread.h>

#include "common/os/unique_fd.h"
#include "testsuites/harness/protocol/test_facts.h"

namespace distrun {

// The id, and the descriptor of its result channel, where the program has been executed afresh.
inline constexpr const char* kRankOfVariable = "DISTRUN_TEST_RANK_OF";
inline constexpr const char* kResultVariable = "DISTRUN_TEST_RESULT";

// How many assertions this process has made so far.
int assertions_made();

// Where the program has been executed afresh as a rank, run_rank(); else nothing.
void run_rank_if_asked();

// The test, then the end of the process.
[[noreturn]] void run_rank(const std::string& id, UniqueFd result);

// The end of the rank, from any of its threads but `thread`: tells the failure, and where `thread`
// stands.  In a process that is no rank the failure goes to stderr.
[[noreturn]] void fail_rank(const AssertionFailure& failure, pthread_t thread);

}  // namespace distrun
