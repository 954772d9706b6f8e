#include "common/os/proc.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <unistd.h>

namespace distrun {
namespace {

using ::testing::Contains;
using ::testing::StartsWith;

TEST(ProcTest, ListsThisProcess) { EXPECT_THAT(all_processes(), Contains(::getpid())); }

TEST(ProcTest, ReadsNamesOfAnyBytes) {
  ASSERT_EQ(::prctl(PR_SET_NAME, "a (b) \n c"), 0);
  EXPECT_EQ(process_name(::getpid()), "a (b) \n c");
  EXPECT_THAT(proc_file(::getpid(), "stat"),
              StartsWith(std::to_string(::getpid()) + " (a (b) \n c) "));
}

// Reading fails as if the process ended after open(): nothing is mapped at address 0.
TEST(ProcTest, ReadsNothingIfReadingFails) { EXPECT_EQ(proc_file(::getpid(), "mem"), ""); }

TEST(ProcTest, ReadsNothingOfAMissingProcess) {
  EXPECT_EQ(process_name(-1), "");
  EXPECT_EQ(proc_file(-1, "stat"), "");
}

}  // namespace
}  // namespace distrun
