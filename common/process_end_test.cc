#include "distrun/process_end.h"

#include <csignal>

#include <gtest/gtest.h>

namespace distrun {
namespace {

TEST(ProcessEndTest, OnlyExitCodeZeroIsSuccess) {
  EXPECT_TRUE(succeeded(ExitedWith{0}));
  EXPECT_FALSE(succeeded(ExitedWith{1}));
  EXPECT_FALSE(succeeded(KilledBy{SIGTERM}));
}

TEST(ProcessEndTest, SignalIsNamedAndReportedAsAShellDoes) {
  EXPECT_EQ(describe(KilledBy{SIGSEGV}), "signal SIGSEGV (11)");
  EXPECT_EQ(exit_status(KilledBy{SIGSEGV}), 139);
  EXPECT_EQ(signal_name(63), "SIG63");
}

TEST(ProcessEndTest, ExitCodeIsReportedUnchanged) {
  EXPECT_EQ(describe(ExitedWith{3}), "exit code 3");
  EXPECT_EQ(exit_status(ExitedWith{3}), 3);
}

}  // namespace
}  // namespace distrun
