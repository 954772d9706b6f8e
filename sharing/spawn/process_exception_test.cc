#include "distrun/process_exception.h"

#include <csignal>

#include <gtest/gtest.h>

namespace distrun {
namespace {

using Stage = ProcessExitedException::Stage;

std::string text(std::optional<ProcessEnd> end, Stage stage) {
  return ProcessExitedException(1, 4711, end, stage).what();
}

TEST(ProcessExceptionTest, ReportsTypeAndTextOfAnException) {
  const ProcessRaisedException raised(1, 4711, "c10::ValueError", "lr is -1");
  EXPECT_STREQ(raised.what(), "process 1 (pid 4711) raised c10::ValueError: lr is -1");
  EXPECT_EQ(raised.index(), 1);
  EXPECT_EQ(raised.pid(), 4711);
  EXPECT_EQ(raised.type(), "c10::ValueError");
  EXPECT_EQ(raised.text(), "lr is -1");
}

TEST(ProcessExceptionTest, NamesSignals) {
  EXPECT_EQ(text(KilledBy{SIGKILL}, Stage::kBegun),
            "process 1 (pid 4711) ended by signal SIGKILL (9)");
}

TEST(ProcessExceptionTest, ReportsTheStageOfAnExit) {
  EXPECT_EQ(text(ExitedWith{0}, Stage::kBegun),
            "process 1 (pid 4711) ended with exit code 0 before its function returned");
  EXPECT_EQ(text(KilledBy{SIGSEGV}, Stage::kReturned),
            "process 1 (pid 4711) ended by signal SIGSEGV (11) after its function returned");
  EXPECT_EQ(text(ExitedWith{3}, Stage::kStarted),
            "process 1 (pid 4711) ended with exit code 3 before it started: main() must call "
            "run_if_spawned() first");
  EXPECT_EQ(text(KilledBy{SIGKILL}, Stage::kStarted),
            "process 1 (pid 4711) ended by signal SIGKILL (9) before it started");
}

TEST(ProcessExceptionTest, SaysWhyAnEndIsUnknown) {
  EXPECT_EQ(text(std::nullopt, Stage::kBegun),
            "process 1 (pid 4711) ended with an unknown status: SIGCHLD is ignored, or other code "
            "reaped the process");
}

TEST(ProcessExceptionTest, NamesTheProcessesThatAreLate) {
  EXPECT_STREQ(ProcessTimedOut({2}, 10).what(), "process 2 has not ended within 10 ms");
  EXPECT_STREQ(ProcessTimedOut({0, 2}, 500).what(),
               "processes 0 and 2 have not ended within 500 ms");
  EXPECT_STREQ(ProcessTimedOut({0, 1, 2}, 500).what(),
               "processes 0, 1 and 2 have not ended within 500 ms");
}

}  // namespace
}  // namespace distrun
