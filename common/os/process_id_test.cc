#include "common/os/process_id.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

namespace distrun {
namespace {

TEST(ProcessIdTest, AChildOfForkHasItsOwn) {
  EXPECT_EQ(process_id(), ::getpid());
  const pid_t child = ::fork();
  if (child == 0) {
    const bool is_own = process_id() == ::getpid();
    const pid_t grandchild = ::fork();
    if (grandchild == 0) ::_exit(process_id() == ::getpid() ? 0 : 1);
    int status = 1;
    ::waitpid(grandchild, &status, 0);
    ::_exit(is_own && status == 0 ? 0 : 1);
  }
  int status = 1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(process_id(), ::getpid());
}

}  // namespace
}  // namespace distrun
