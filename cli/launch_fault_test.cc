// Faults of real processes: workers that crash, killed processes of distrun, daemons.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "cli/test/launch.h"
#include "common/os/proc.h"

namespace distrun {
namespace {

using namespace testing;  // Launches.

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::vector<int> children_of(int pid) {
  std::ifstream list("/proc/" + std::to_string(pid) + "/task/" + std::to_string(pid) + "/children");
  return {std::istream_iterator<int>(list), {}};
}

// The processes of distrun itself: guard, second guard, launcher.
std::vector<int> processes_of(int guard) {
  std::vector<int> processes{guard};
  while (processes.size() < 3 && children_of(processes.back()).size() == 1) {
    processes.push_back(children_of(processes.back()).front());
  }
  return processes;
}

// Makes a daemon, and prints its pid: another session, and a parent that has ended.
constexpr const char* kDaemon =
    "mkfifo $FOLDER/fifo$RANK &&"
    "setsid -f sh -c 'echo $$ >$FOLDER/fifo$RANK; exec sleep 1000' >/dev/null 2>&1 &&"
    "read pid <$FOLDER/fifo$RANK && echo $pid;";

class LaunchFaultTest : public ::testing::Test {
 protected:
  LaunchFaultTest() {
    options_.environment.set("FOLDER", folder_.path());
    options_.environment.set("DISTRUN", DISTRUN_PROGRAM);
    std::filesystem::create_directory(temporary());
    options_.environment.set("TMPDIR", temporary());
  }
  std::string temporary() const { return folder_.path() + "/tmp"; }
  bool nothing_is_left_in_temporary() const { return std::filesystem::is_empty(temporary()); }
  // Retries for at most 30 seconds: distrun is not this test's child any more.
  bool temporary_becomes_empty() const {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!nothing_is_left_in_temporary() && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::yield();
    }
    return nothing_is_left_in_temporary();
  }

  // Calls `act` with distrun's pid after `count` lines of pids, which are then watched.
  void once_printed(std::size_t count, std::function<void(int distrun)> act) {
    options_.on_output = [this, count, act](const std::string& out, int distrun) {
      if (!watched_.empty() || lines(out).size() < count || out.back() != '\n') return;
      for (const auto& pid : lines(out)) watched_.push_back(testing::watch(pid));
      act(distrun);
    };
  }
  void expect_all_ended(std::size_t count) {
    ASSERT_EQ(watched_.size(), count);
    for (const auto& process : watched_) EXPECT_TRUE(ends(process));
  }

  // Already now.
  void expect_all_have_ended(std::size_t count) {
    for (const auto& process : watched_) {
      if (!process) continue;
      pollfd ended{.fd = process.get(), .events = POLLIN, .revents = 0};
      EXPECT_EQ(::poll(&ended, 1, 0), 1) << "still there when distrun has ended";
    }
    EXPECT_EQ(watched_.size(), count);
  }

  const SignalsByDefault signals_;
  const Folder folder_;
  ProgramOptions options_;
  std::vector<UniqueFd> watched_;
};

TEST_F(LaunchFaultTest, EveryExitCodeIsDistrunsStatus) {
  for (const int code : {1, 2, 3, 77, 124, 125, 126, 127, 128, 255}) {
    const auto result = launch_shell(1, "exit " + std::to_string(code), options_);
    EXPECT_EQ(result.end, ProcessEnd(ExitedWith{code}));
    EXPECT_THAT(result.err,
                StartsWith("distrun: rank 0 failed: exit code " + std::to_string(code)));
  }
}

TEST_F(LaunchFaultTest, EveryDeadlySignalIsNamed) {
  for (const int signal :
       {SIGHUP, SIGINT, SIGQUIT, SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGKILL, SIGUSR1,
        SIGSEGV, SIGUSR2, SIGPIPE, SIGALRM, SIGTERM, SIGXCPU, SIGSYS}) {
    const auto result = launch_shell(1, "kill -" + std::to_string(signal) + " $$", options_);
    EXPECT_EQ(result.end, ProcessEnd(ExitedWith{128 + signal}));
    EXPECT_THAT(result.err, StartsWith("distrun: rank 0 failed: signal " + signal_name(signal)));
  }
}

TEST_F(LaunchFaultTest, ADaemonDoesNotOutliveARunThatSucceeds) {
  once_printed(2, [](int) {});
  const auto result = launch_shell(2, kDaemon, options_);
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{0})) << result.err;
  expect_all_ended(2);
}

TEST_F(LaunchFaultTest, ADaemonDoesNotOutliveARunThatFails) {
  once_printed(1, [](int) {});
  const auto result = launch_shell(
      2, std::string("[ $RANK = 0 ] || exec sleep 1000;") + kDaemon + "exit 3", options_);
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{3})) << result.err;
  expect_all_ended(1);
}

// The worker's process group is gone; its daemon left it before.
TEST_F(LaunchFaultTest, KillsTheDaemonOfAWorkerThatExitedLongAgo) {
  once_printed(1, [](int) {});
  const auto result = launch_shell(
      2,
      std::string("[ $RANK = 1 ] || { ") + kDaemon +
          " echo $$ >$FOLDER/zero; exit; };"
          "until [ -s $FOLDER/zero ] && ! [ -d /proc/$(cat $FOLDER/zero) ]; do :; done",
      options_);
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{0})) << result.err;
  expect_all_ended(1);
}

TEST_F(LaunchFaultTest, ReportsLeakedProcesses) {
  const auto result = launch_shell(1, kDaemon, options_);
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{0}));
  // It may not have become `sleep` yet.
  EXPECT_THAT(result.err, HasSubstr("leaked processes: pid " + lines(result.out).front() + " (s"));
}

TEST_F(LaunchFaultTest, KillsAndNamesAChildThatKeepsTheOutputOpen) {
  once_printed(1, [](int) {});
  const auto result = launch_shell(1, "sleep 1000 & echo $!", options_);
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{0}));
  EXPECT_THAT(result.err, HasSubstr("rank 0 leaked a process that kept the output open"));
  // It may not have become `sleep` yet.
  EXPECT_THAT(result.err, HasSubstr("leaked processes: pid " + lines(result.out).front() + " (s"));
  expect_all_ended(1);
}

TEST_F(LaunchFaultTest, NothingOutlivesAGuardThatIsKilled) {
  once_printed(4, [](int distrun) { ::kill(distrun, SIGKILL); });
  const auto result = launch_shell(2, std::string(kDaemon) + "echo $$; exec sleep 1000", options_);
  EXPECT_EQ(result.end, ProcessEnd(KilledBy{SIGKILL}));
  expect_all_ended(4);
  EXPECT_TRUE(nothing_is_left_in_temporary());
}

TEST_F(LaunchFaultTest, NothingOutlivesALauncherThatIsKilled) {
  once_printed(4, [](int distrun) { ::kill(processes_of(distrun).at(2), SIGKILL); });
  const auto result = launch_shell(2, std::string(kDaemon) + "echo $$; exec sleep 1000", options_);
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{128 + SIGKILL}));
  EXPECT_THAT(result.err, AllOf(HasSubstr("the launcher"), HasSubstr("signal SIGKILL (9)")));
  expect_all_have_ended(4);
  EXPECT_TRUE(nothing_is_left_in_temporary());
}

TEST_F(LaunchFaultTest, NothingOutlivesASecondGuardThatIsKilled) {
  once_printed(4, [](int distrun) { ::kill(processes_of(distrun).at(1), SIGKILL); });
  const auto result = launch_shell(2, std::string(kDaemon) + "echo $$; exec sleep 1000", options_);
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{128 + SIGKILL}));
  EXPECT_THAT(result.err, AllOf(HasSubstr("the second guard"), HasSubstr("signal SIGKILL (9)")));
  expect_all_have_ended(4);
  EXPECT_TRUE(nothing_is_left_in_temporary());
}

// In any pair: the third ends the run.
TEST_F(LaunchFaultTest, NothingOutlivesTwoProcessesOfDistrunThatAreKilledAtOnce) {
  for (const std::size_t spared : {0, 1, 2}) {
    SCOPED_TRACE(spared);
    watched_.clear();
    once_printed(4, [spared](int distrun) {
      auto processes = processes_of(distrun);
      ASSERT_EQ(processes.size(), 3u);
      processes.erase(processes.begin() + static_cast<long>(spared));
      for (const int pid : processes) ::kill(pid, SIGKILL);
    });
    launch_shell(2, std::string("rm -f $FOLDER/fifo$RANK;") + kDaemon + "echo $$; exec sleep 1000",
                 options_);
    expect_all_ended(4);
    EXPECT_TRUE(temporary_becomes_empty());
  }
}

TEST_F(LaunchFaultTest, NothingOutlivesKillallOfDistrun) {
  once_printed(4, [](int distrun) {
    const std::string name = process_name(distrun);
    for (const int pid : processes_of(distrun)) {
      if (process_name(pid) == name) ::kill(pid, SIGKILL);
    }
  });
  launch_shell(2, std::string(kDaemon) + "echo $$; exec sleep 1000", options_);
  expect_all_ended(4);
  EXPECT_TRUE(temporary_becomes_empty());
}

TEST_F(LaunchFaultTest, RemovesTheStoreFileOfAKilledLauncher) {
  const std::string meet = folder_.path() + "/meet";
  once_printed(1, [](int distrun) { ::kill(processes_of(distrun).at(2), SIGKILL); });
  launch({"--store", "file:" + meet, "sh", "-c", "echo $$; exec sleep 1000"}, options_);
  expect_all_ended(1);
  EXPECT_FALSE(std::filesystem::exists(meet));
}

// A shell that becomes distrun by exec: its children, and theirs, do not belong to the run.
TEST_F(LaunchFaultTest, LeavesEarlierProcessesAlone) {
  const std::string strangers =
      "setsid sh -c 'echo $$ >$FOLDER/child; exec sleep 1000' >/dev/null 2>&1 &"
      "setsid sh -c 'echo $$ >$FOLDER/parent;"
      "  sh -c \"echo \\$\\$ >$FOLDER/leaked; exec sleep 1000\" &"
      "  until [ -e $FOLDER/go ]; do sleep 0.01; done' >/dev/null 2>&1 &";
  for (const std::string end : {"exit 0", "kill -KILL $PPID; sleep 1000"}) {
    const auto result = run_program(
        {"bash", "-c",
         strangers +
             "exec $DISTRUN launch sh -c 'cd $FOLDER;"
             "until [ -s child ] && [ -s parent ] && [ -s leaked ]; do :; done; touch go;"
             "while grep -qs State:.[RSDT] /proc/$(cat parent)/status; do :; done;" +
             end + "'"},
        options_);
    EXPECT_FALSE(result.timed_out) << result.err;
    const bool killed = end != "exit 0";
    EXPECT_EQ(result.end, ProcessEnd(ExitedWith{killed ? 128 + SIGKILL : 0}));
    EXPECT_EQ(result.err.find("the launcher") != std::string::npos, killed) << result.err;
    for (const std::string name : {"child", "leaked"}) {
      std::string pid;
      std::ifstream(folder_.path() + "/" + name) >> pid;
      pollfd ended{.fd = -1, .events = POLLIN, .revents = 0};
      const UniqueFd process = watch(pid);
      ended.fd = process.get();
      EXPECT_TRUE(process && ::poll(&ended, 1, 0) == 0) << name << " was ended";
      ::kill(std::stoi(pid), SIGKILL);
    }
    for (const auto* name : {"child", "parent", "leaked", "go"}) {
      std::filesystem::remove(folder_.path() + "/" + name);
    }
  }
}

TEST_F(LaunchFaultTest, LeakedProcessesThatEndAreReaped) {
  // The parent of the worker, and of leaked processes, is the launcher.
  const auto result =
      launch_shell(1,
                   "for i in 1 2 3; do sh -c 'setsid true &'; done;"
                   "while :; do left=; for child in $(cat /proc/$PPID/task/$PPID/children); do"
                   " [ $child = $$ ] || left=yes; done; [ $left ] || break; done; echo reaped",
                   options_);
  EXPECT_EQ(result.out, "reaped\n") << result.err;
}

// The launcher is stopped while two workers fail, so that it sees both at once.
TEST_F(LaunchFaultTest, FirstFailureInTimeIsTheCulprit) {
  const std::string script =
      "echo $$ >$FOLDER/pid$RANK.new; mv $FOLDER/pid$RANK.new $FOLDER/pid$RANK;"
      "state() { until [ -e $FOLDER/pid$1 ]; do :; done;"
      "  until grep -q \"^State:.$2\" /proc/$(cat $FOLDER/pid$1)/status; do :; done; };"
      "trap '' TERM;"
      "case $RANK in"
      "  0) state 2 Z; exit 9;;"
      "  1) state 0 Z; trap - TERM; kill -CONT $PPID; exec sleep 1000;;"
      "  2) state 0 '[RS]'; state 1 '[RS]'; kill -STOP $PPID;"
      "     until grep -q '^State:.T' /proc/$PPID/status; do :; done; exit 5;;"
      "esac";
  const auto result = launch_shell(3, script, options_);
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{5})) << result.err;
  EXPECT_THAT(result.err, StartsWith("distrun: rank 2 failed: exit code 5\n"));
  EXPECT_THAT(result.err, HasSubstr("exit code 9"));
}

TEST_F(LaunchFaultTest, ShutdownTimeoutAppliesWhenAPeerFails) {
  options_.timeout_s = 20;  // Less than the default --shutdown-timeout.
  const auto result = launch({"--nproc-per-node", "2", "--shutdown-timeout", "0.3", "sh", "-c",
                              "trap '' TERM; echo $$ >$FOLDER/$RANK; [ $RANK = 0 ] || {"
                              " until [ -s $FOLDER/0 ]; do :; done; exit 6; };"
                              "while :; do sleep 1; done"},
                             options_);
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{6}));
  EXPECT_THAT(result.err, HasSubstr("signal SIGKILL (9)"));
}

// `timeout` and session managers signal a process and then its group.
TEST_F(LaunchFaultTest, ASignalToTheProcessAndItsGroupIsOneSignal) {
  once_printed(1, [](int distrun) {
    ::kill(distrun, SIGTERM);
    ::kill(-distrun, SIGTERM);
  });
  const auto result = launch_shell(1,
                                   "trap 'sleep 0.2; echo saved >$FOLDER/saved; exit' TERM; echo "
                                   "$$; while :; do sleep 0.1; done",
                                   options_);
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{128 + SIGTERM}));
  EXPECT_TRUE(std::filesystem::exists(folder_.path() + "/saved"));
}

TEST_F(LaunchFaultTest, WorkersGetTheSignalThatDistrunGot) {
  once_printed(1, [](int distrun) { ::kill(distrun, SIGHUP); });
  const auto result = launch_shell(
      1, "trap 'echo hung up >$FOLDER/it; exit' HUP; echo $$; while :; do sleep 0.1; done",
      options_);
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{128 + SIGHUP}));
  EXPECT_TRUE(std::filesystem::exists(folder_.path() + "/it"));
}

TEST_F(LaunchFaultTest, EveryAttemptHasAFreshStoreAndItsOwnErrorFiles) {
  const auto result =
      launch({"--nproc-per-node", "2", "--max-restarts", "2", "sh", "-c",
              "$DISTRUN store add count 1; $DISTRUN store barrier here 2;"
              "[ ! -e $TORCHELASTIC_ERROR_FILE ] || echo stale; echo x >$TORCHELASTIC_ERROR_FILE;"
              "echo $TORCHELASTIC_RESTART_COUNT/$TORCHELASTIC_MAX_RESTARTS;"
              "[ $TORCHELASTIC_RESTART_COUNT = 2 ] || exit 3"},
             options_);
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{0})) << result.err;
  auto all = lines(result.out);
  std::sort(all.begin(), all.end());
  EXPECT_THAT(std::vector(all.end() - 8, all.end()),
              ::testing::IsSupersetOf({"1", "2", "2/2", "2/2"}));
  for (const auto& line : all)
    EXPECT_THAT(line, Not(::testing::AnyOf("stale", "3", "4", "5", "6")));
}

TEST_F(LaunchFaultTest, EveryAttemptHasAFreshStoreFile) {
  const std::string meet = folder_.path() + "/meet";
  const auto result = launch({"--store", "file:" + meet, "--max-restarts", "3", "sh", "-c",
                              "file=${DISTRUN_INIT_METHOD#file://}; wc -c <$file;"
                              "case $TORCHELASTIC_RESTART_COUNT in 0) echo used >>$file; exit 3;;"
                              " 1) rm $file; exit 3;; 2) exit 3;; esac"},
                             options_);
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{0})) << result.err;
  const auto sizes = lines(result.out);
  ASSERT_EQ(sizes.size(), 4u);
  EXPECT_THAT(sizes, ::testing::Each(sizes.front()));
  EXPECT_FALSE(std::filesystem::exists(meet));
}

TEST_F(LaunchFaultTest, LastFailureCountsWhenNoRestartIsLeft) {
  const auto result = launch(
      {"--max-restarts", "2", "sh", "-c", "exit $((TORCHELASTIC_RESTART_COUNT + 3))"}, options_);
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{5}));
}

// A leaked process could reach the next attempt's store.
TEST_F(LaunchFaultTest, DaemonOfAnAttemptIsGoneBeforeTheNext) {
  const auto result =
      launch({"--max-restarts", "1", "sh", "-c",
              std::string("[ $TORCHELASTIC_RESTART_COUNT = 0 ] && { ") + kDaemon +
                  "echo $pid >$FOLDER/daemon; exit 3; }; [ ! -d /proc/$(cat $FOLDER/daemon) ]"},
             options_);
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{0})) << result.err;
}

TEST_F(LaunchFaultTest, StartsAndStops512Workers) {
  const auto result =
      launch_shell(512, "echo here; [ $RANK != 300 ] || exit 7; exec sleep 1000", options_);
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{7})) << result.err;
  EXPECT_THAT(result.err, StartsWith("distrun: rank 300 failed: exit code 7\n"));
}

// The limit does not apply to root.
TEST_F(LaunchFaultTest, ReportsThatTooFewProcessesAreAvailable) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to be another user whose processes are few";
  ::chmod(folder_.path().c_str(), 0755);
  ::chmod(temporary().c_str(), 0777);
  bool failed = false, succeeded = false;
  // LeakSanitizer needs an extra process.
  options_.environment.set("ASAN_OPTIONS", "detect_leaks=0");
  for (const int limit : {1, 2, 3, 4, 5, 6, 10}) {
    const auto result =
        run_program({"setpriv", "--reuid=64321", "--regid=64321", "--clear-groups", "prlimit",
                     "--nproc=" + std::to_string(limit), DISTRUN_PROGRAM, "launch",
                     "--nproc-per-node", "3", "sh", "-c", "echo started; exec sleep 0"},
                    options_);
    EXPECT_FALSE(result.timed_out);
    if (result.end == ProcessEnd(ExitedWith{0})) {
      succeeded = true;
      continue;
    }
    failed = true;
    EXPECT_EQ(result.end, ProcessEnd(ExitedWith{125})) << limit << result.err;
    EXPECT_THAT(result.err, HasSubstr("esource temporarily unavailable")) << limit;
  }
  EXPECT_TRUE(failed);
  EXPECT_TRUE(succeeded);
}

}  // namespace
}  // namespace distrun
