#include "testsuites/harness/run/leaked_rank_processes.h"

#include <chrono>
#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/os/proc.h"
#include "launcher/process/leaked_processes.h"

namespace distrun {
namespace {

using std::chrono::seconds;
using ::testing::EndsWith;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Starts a shell that has only `variable`, runs `script` and has printed a line.
pid_t start(const char* variable, const char* script) {
  int ends[2];
  EXPECT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(ends[1], 1);
    ::close(ends[0]);
    ::close(ends[1]);
    const char* environment[] = {variable, nullptr};
    ::execle("/bin/sh", "sh", "-c", script, nullptr, environment);
    ::_exit(127);
  }
  ::close(ends[1]);
  char byte = 0;
  EXPECT_EQ(::read(ends[0], &byte, 1), 1);
  ::close(ends[0]);
  return child;
}

const char* const kSleeps = "echo; exec sleep 1000 >/dev/null";

void end(pid_t child) {
  ::kill(child, SIGKILL);
  EXPECT_EQ(::waitpid(child, nullptr, 0), child);
}

TEST(LeakedRankProcessesTest, EndsOnlyProcessesWithTheVariable) {
  const pid_t mine = start("RANK_KEY=7", kSleeps);
  const pid_t other = start("RANK_KEY=77", kSleeps), another = start("A_RANK_KEY=7", kSleeps);
  const auto ended = LeakedRankProcesses().end("RANK_KEY=7", seconds(10));
  ASSERT_THAT(ended, SizeIs(1));
  EXPECT_EQ(ended[0].substr(0, ended[0].find(' ')), std::to_string(mine));
  int status = 0;
  EXPECT_EQ(::waitpid(mine, &status, WNOHANG), mine);
  EXPECT_EQ(WTERMSIG(status), SIGKILL);
  for (const pid_t not_mine : {other, another}) {
    EXPECT_EQ(::waitpid(not_mine, nullptr, WNOHANG), 0);
    end(not_mine);
  }
}

TEST(LeakedRankProcessesTest, GivesUpQuicklyOnProcessesWithoutEnvironment) {
  const pid_t bare = start(nullptr, kSleeps);
  const pid_t ended = ::fork();
  if (ended == 0) ::_exit(0);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_THAT(LeakedRankProcesses().end("RANK_KEY=9", seconds(20)), IsEmpty());
  EXPECT_LT(std::chrono::steady_clock::now() - begin, seconds(15));
  end(bare);
  end(ended);
}

TEST(LeakedRankProcessesTest, EndsNothingAfterTheTimeOut) {
  const pid_t mine = start("RANK_KEY=10", kSleeps);
  EXPECT_THAT(LeakedRankProcesses().end("RANK_KEY=10", seconds(0)), IsEmpty());
  EXPECT_EQ(::waitpid(mine, nullptr, WNOHANG), 0);
  end(mine);
}

TEST(LeakedRankProcessesTest, EndsOrphansOfEndedProcessesToo) {
  ASSERT_TRUE(become_subreaper());
  start("RANK_KEY=8", "sleep 1000 >/dev/null & echo; wait");
  EXPECT_THAT(LeakedRankProcesses().end("RANK_KEY=8", seconds(10)), SizeIs(2));
  EXPECT_THAT(LeakedRankProcesses().end("RANK_KEY=8", seconds(10)), IsEmpty());
  EXPECT_THAT(kill_leaked_processes(seconds(10)).killed, IsEmpty());
  ::prctl(PR_SET_CHILD_SUBREAPER, 0);
}

// Such a process exists for the whole run, so it must cost time only once.
TEST(LeakedRankProcessesTest, RemembersProcessesWithoutEnvironment) {
  const pid_t stranger = start("RANK_KEY=9", "echo; exec env -i sleep 1000 >/dev/null");
  while (process_name(stranger) != "sleep") ::sched_yield();
  LeakedRankProcesses leaked;
  EXPECT_THAT(leaked.end("RANK_KEY=9", seconds(10)), IsEmpty());
  EXPECT_EQ(leaked.strangers(), std::set<pid_t>{stranger});
  ::kill(stranger, SIGKILL);
  ::waitpid(stranger, nullptr, 0);
  leaked.end("RANK_KEY=9", seconds(10));
  EXPECT_THAT(leaked.strangers(), IsEmpty());
}

}  // namespace
}  // namespace distrun
