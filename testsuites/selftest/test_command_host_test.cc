// `distrun test` with a real test host (misbehaving.cc).  cli/test_command_test.cc tests its flags.
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/os/unique_fd.h"
#include "common/test/folder.h"
#include "launcher/test/run_program.h"
#include "launcher/test/terminal.h"

namespace distrun {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;

class TestCommandTest : public ::testing::Test {
 protected:
  TestCommandTest() {
    options_.environment.set("XDG_CACHE_HOME", folder_.path());
    options_.environment.set("SELFTEST_FOLDER", folder_.path());
  }

  testing::ProgramResult test(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {DISTRUN_PROGRAM, "test", "--binary", SELFTEST_PROGRAM});
    return testing::run_program(arguments, options_);
  }

  std::string file(const std::string& name) const { return folder_.path() + "/" + name; }

  testing::Folder folder_;
  testing::ProgramOptions options_;
};

TEST_F(TestCommandTest, WritesTheOperationsOfItsRanksIntoATrace) {
  const auto result =
      test({"selftest.Hangs.test_sleeps_between_collectives", "--trace", file("trace.json")});
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{1})) << result.err;
  std::ifstream written(file("trace.json"));
  std::vector<std::string> bars, marks;
  const auto trace = nlohmann::json::parse(written);
  for (const auto& event : trace["traceEvents"]) {
    const std::string text = event["tid"].dump() + " " + event["name"].get<std::string>();
    if (event["ph"] == "X") bars.push_back(text);
    if (event["ph"] == "i") marks.push_back(text);
  }
  // Rank N has row 1000 N + 1.
  EXPECT_THAT(bars, ElementsAre("1 timed_out", "1 allreduce", "1 allreduce (unfinished)",
                                "1001 timed_out", "1001 allreduce", "2001 timed_out",
                                "2001 allreduce", "2001 allreduce (unfinished)"));
  EXPECT_THAT(marks, ElementsAre("1 hung", "1 timed_out: killed by distrun", "1001 hung",
                                 "1001 timed_out: killed by distrun", "2001 hung",
                                 "2001 timed_out: killed by distrun"));
}

TEST_F(TestCommandTest, RunsARankUnderACommand) {
  const auto result = test({"selftest.Well.test_passes", "--rank-under", "1", "env", "UNDER=1",
                            "sh", "-c", "echo under $UNDER; exec \"$0\""});
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{0})) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("under 1\n"));
}

// For a rank under a command, neither the timeout nor a peer's failure counts.
TEST_F(TestCommandTest, ARankUnderACommandHasNoTimeLimit) {
  const auto run = [&](const char* id) {
    return test({id, "--rank-under", "0", "sh", "-c", "sleep 3; echo slowly; exec \"$0\""}).out;
  };
  EXPECT_THAT(run("surroundings.Rank.test_has_half_a_second"), HasSubstr("slowly\n"));
  EXPECT_THAT(run("selftest.Fails.test_throws"), HasSubstr("slowly\n"));
}

TEST_F(TestCommandTest, ARankUnderACommandHasTheTerminal) {
  testing::Terminal terminal({"env", "XDG_CACHE_HOME=" + folder_.path(), DISTRUN_PROGRAM, "test",
                              "--binary", SELFTEST_PROGRAM, "selftest.Well.test_passes",
                              "--rank-under", "1", "sh", "-c",
                              "grep SigIgn: /proc/self/status; read line; echo got $line; "
                              "exec \"$0\""});
  ASSERT_TRUE(terminal.wait_for("SigIgn:")) << terminal.text();
  terminal.type("something\n");
  EXPECT_TRUE(terminal.wait_for("got something")) << terminal.text();
  EXPECT_TRUE(terminal.wait_for("1 passed, 0 failed")) << terminal.text();
  EXPECT_EQ(terminal.end(), ProcessEnd(ExitedWith{0}));
  const auto ignored = terminal.text().find("SigIgn:") + 8;
  const auto mask = std::stoull(terminal.text().substr(ignored), nullptr, 16);
  EXPECT_EQ(mask >> (SIGTTOU - 1) & 1, 0u);
}

// Ranks hold a pipe open, which ends when no rank is left.
class RunnerEndTest : public TestCommandTest {
 protected:
  RunnerEndTest() {
    EXPECT_EQ(::mkfifo(file("pipe").c_str(), 0600), 0);
    pipe_.reset(::open(file("pipe").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    options_.environment.set("SELFTEST_PIPE", file("pipe"));
  }

  // Calls `act` with distrun's pid once all three ranks run.
  testing::ProgramResult run_and(const std::function<void(int pid)>& act) {
    options_.on_output = [&, done = false](const std::string&, int pid) mutable {
      if (std::exchange(done, true)) return;
      for (int come = 0; come < 3; ++come) EXPECT_EQ(read_byte(), '!');
      act(pid);
    };
    return test({"selftest.Hangs.test_with_a_pipe"});
  }

  // A byte; 0 at the end of the pipe; -1 after half a minute.
  int read_byte() const {
    for (;;) {
      pollfd ready{pipe_.get(), POLLIN, 0};
      if (::poll(&ready, 1, 30'000) <= 0) return -1;
      char byte = 0;
      const auto size = ::read(pipe_.get(), &byte, 1);
      if (size >= 0) return size == 0 ? 0 : byte;
    }
  }

  static int child_of(int pid) {
    std::ifstream children("/proc/" + std::to_string(pid) + "/task/" + std::to_string(pid) +
                           "/children");
    int child = -1;
    children >> child;
    return child;
  }
  static int launcher_of(int guard) { return child_of(child_of(guard)); }

  UniqueFd pipe_;
};

TEST_F(RunnerEndTest, NoRankSurvivesTheRunner) {
  const auto result = run_and([](int pid) { ::kill(launcher_of(pid), SIGKILL); });
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{137}));
  EXPECT_THAT(result.err,
              HasSubstr("the process that ran the tests was killed: signal SIGKILL (9)"));
  EXPECT_EQ(read_byte(), 0);
}

TEST_F(RunnerEndTest, NoRankSurvivesTheGuard) {
  run_and([](int pid) { ::kill(pid, SIGKILL); });
  EXPECT_EQ(read_byte(), 0);
}

TEST_F(RunnerEndTest, AnInterruptEndsTestsAndPrintsTheSummary) {
  const auto result = run_and([](int pid) { ::kill(pid, SIGINT); });
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{130}));
  EXPECT_THAT(result.out, HasSubstr("the run was interrupted before the test ended"));
  EXPECT_THAT(result.out, EndsWith("\n0 passed, 1 failed, 0 skipped\n"));
  EXPECT_EQ(read_byte(), 0);
}

TEST_F(TestCommandTest, TypedInputGoesToTheRankUnderACommand) {
  testing::Terminal terminal(
      {"env", "XDG_CACHE_HOME=" + folder_.path(), DISTRUN_PROGRAM, "test", "--binary",
       SELFTEST_PROGRAM, "selftest.Well.test_passes", "--rank-under", "1", "sh", "-c",
       "trap 'echo not yet' INT; echo there; until read line </dev/tty; do :; done;"
       "echo got $line.; exec \"$0\""});
  ASSERT_TRUE(terminal.wait_for("there")) << terminal.text();
  EXPECT_TRUE(terminal.type_until("\x03", "not yet")) << terminal.text();
  terminal.type("hello\n");
  EXPECT_TRUE(terminal.wait_for("got hello.")) << terminal.text();
  EXPECT_TRUE(terminal.wait_for("1 passed, 0 failed")) << terminal.text();
  EXPECT_EQ(terminal.end(), ProcessEnd(ExitedWith{0})) << terminal.text();
}

TEST_F(TestCommandTest, RejectsRankUnderForSeveralTestsASkippedOneOrAnUnknownRank) {
  const auto problem = [&](std::vector<std::string> arguments) {
    arguments.emplace_back("sh");
    const auto result = test(arguments);
    EXPECT_EQ(result.end, ProcessEnd(ExitedWith{2})) << result.out;
    return result.err;
  };
  EXPECT_THAT(problem({"selftest.Well", "--rank-under", "0"}),
              HasSubstr("--rank-under 0: select one test, not "));
  EXPECT_THAT(
      problem({"selftest.NeedsNccl.test_is_skipped", "--backend", "gloo", "--rank-under", "0"}),
      HasSubstr("--rank-under 0: the test is skipped: does not support backend gloo"));
  EXPECT_THAT(problem({"selftest.Well.test_passes", "--rank-under", "4"}),
              HasSubstr("--rank-under 4: selftest.Well.test_passes has ranks 0 to "));
}

// The ranks go on after they were asked.
TEST_F(TestCommandTest, ReportsOnSigusr1InWhichCollectiveEachRankIs) {
  ASSERT_EQ(::mkfifo(file("go").c_str(), 0600), 0);
  const UniqueFd go(::open(file("go").c_str(), O_RDWR | O_CLOEXEC));
  const std::string expected =
      "  collectives\n"
      "    rank 0: allreduce, number 2 of group default_pg, has not completed: Float [3]\n"
      "    rank 1: nothing is under way; the last collective, allreduce, number 1 of group "
      "default_pg, has completed: Float [3]\n";
  options_.on_output = [&, answers = -1, is_over = false](const std::string& out, int pid) mutable {
    if (is_over) return;
    is_over = out.find(expected) != out.npos;
    if (is_over) {
      EXPECT_EQ(::write(go.get(), "!", 1), 1);
      return;
    }
    int seen = 0;
    for (std::size_t at = 0; (at = out.find("where the ranks of", at)) != out.npos; ++at) ++seen;
    if (seen > std::exchange(answers, seen)) ::kill(pid, SIGUSR1);
  };
  const auto result = test({"selftest.Well.test_reduces_after_a_sign"});
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{0})) << result.out;
  EXPECT_THAT(result.out, HasSubstr(expected));
}

// `script` watches what the shell's job control does.
TEST_F(TestCommandTest, CtrlZSuspendsTheRanksAndTheShellContinuesThem) {
  ASSERT_EQ(::mkfifo(file("go").c_str(), 0600), 0);
  const std::string pids = "$(cat " + file("pid_0") + " " + file("pid_1") + ")";
  testing::Terminal terminal({"env", "SELFTEST_FOLDER=" + folder_.path(),
                              "XDG_CACHE_HOME=" + folder_.path(), "TERM=xterm", "bash", "-mc",
                              "(until [ -e " + file("pid_0") + " -a -e " + file("pid_1") +
                                  " ]; do :; done; echo there) & " + DISTRUN_PROGRAM +
                                  " test --binary " + SELFTEST_PROGRAM +
                                  " selftest.Well.test_waits_for_a_sign; echo status $?;"
                                  " for pid in " +
                                  pids +
                                  "; do until grep -q State:.T /proc/$pid/status; do :; done; done;"
                                  " echo all stopped; exec 9<>" +
                                  file("go") + "; echo go >&9; fg; echo status $?"});
  ASSERT_TRUE(terminal.wait_for("there")) << terminal.text();
  terminal.type("\x1a");
  ASSERT_TRUE(terminal.wait_for("status 148")) << terminal.text();
  EXPECT_TRUE(terminal.wait_for("all stopped")) << terminal.text();
  EXPECT_TRUE(terminal.wait_for("1 passed, 0 failed")) << terminal.text();
  EXPECT_TRUE(terminal.wait_for("status 0")) << terminal.text();
}

}  // namespace
}  // namespace distrun
