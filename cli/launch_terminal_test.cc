// Launches on a terminal: typed input, Ctrl-C, Ctrl-Z.
#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/test/launch.h"
#include "launcher/test/terminal.h"

namespace distrun {
namespace {

using namespace testing;  // Launches, terminals.

using ::testing::HasSubstr;

constexpr const char* kCtrlC = "\x03";
constexpr const char* kCtrlZ = "\x1a";

std::string launch_line(int workers, const std::string& script) {
  return std::string(DISTRUN_PROGRAM) + " launch --nproc-per-node " + std::to_string(workers) +
         " sh -c '" + script + "'";
}

TEST(LaunchTerminalTest, LocalRankZeroReadsWhatIsTyped) {
  Terminal terminal({"bash", "-c", launch_line(2, "read line; echo $RANK has $line.")});
  ASSERT_TRUE(terminal.wait_for("1 has .")) << terminal.text();
  terminal.type("hello\n");
  EXPECT_TRUE(terminal.wait_for("0 has hello.")) << terminal.text();
  EXPECT_EQ(terminal.end(), ProcessEnd(ExitedWith{0})) << terminal.text();
}

TEST(LaunchTerminalTest, ARunInTheBackgroundLeavesTheTerminalAlone) {
  Terminal terminal(
      {"bash", "-mc",
       launch_line(1, "read line; echo got $line.") + " & wait $!; read l; echo shell $l"});
  ASSERT_TRUE(terminal.wait_for("got .")) << terminal.text();
  terminal.type("hello\n");
  EXPECT_TRUE(terminal.wait_for("shell hello")) << terminal.text();
}

TEST(LaunchTerminalTest, CtrlCEndsTheRun) {
  Terminal terminal(
      {DISTRUN_PROGRAM, "launch", "--nproc-per-node", "2", "sh", "-c",
       "trap 'echo $RANK saves; exit' INT; echo $RANK ready; while :; do sleep 0.1; done"});
  ASSERT_TRUE(terminal.wait_for("ready") && terminal.wait_for("ready")) << terminal.text();
  terminal.type(kCtrlC);
  EXPECT_EQ(terminal.end(), ProcessEnd(ExitedWith{130})) << terminal.text();
  EXPECT_THAT(terminal.text(), HasSubstr("0 saves"));
  EXPECT_THAT(terminal.text(), HasSubstr("1 saves"));
  EXPECT_THAT(terminal.text(), HasSubstr("distrun: ended by signal SIGINT (2)"));
}

TEST(LaunchTerminalTest, CtrlCAgainKills) {
  Terminal terminal({DISTRUN_PROGRAM, "launch", "--shutdown-timeout", "1000", "sh", "-c",
                     "trap 'echo not yet' INT; echo ready; while :; do sleep 0.1; done"});
  ASSERT_TRUE(terminal.wait_for("ready")) << terminal.text();
  terminal.type(kCtrlC);
  ASSERT_TRUE(terminal.wait_for("not yet")) << terminal.text();
  // Two within a moment would count as one.
  EXPECT_TRUE(terminal.type_until(kCtrlC, "signal SIGKILL (9)")) << terminal.text();
  EXPECT_EQ(terminal.end(), ProcessEnd(ExitedWith{130})) << terminal.text();
}

TEST(LaunchTerminalTest, AfterCtrlCNamesRunningWorkers) {
  Terminal terminal({DISTRUN_PROGRAM, "launch", "--nproc-per-node", "2", "sh", "-c",
                     "trap '[ $RANK = 0 ] && exit' INT; echo ready; while :; do sleep 0.1; done"});
  ASSERT_TRUE(terminal.wait_for("ready") && terminal.wait_for("ready")) << terminal.text();
  terminal.type(kCtrlC);
  ASSERT_TRUE(terminal.wait_for("distrun: rank 1 (pid ")) << terminal.text();
  ASSERT_TRUE(terminal.wait_for(") still runs; SIGKILL follows in ")) << terminal.text();
  ASSERT_TRUE(terminal.wait_for(" s, or at once if you press Ctrl-C again")) << terminal.text();
  EXPECT_TRUE(terminal.type_until(kCtrlC, "signal SIGKILL (9)")) << terminal.text();
}

TEST(LaunchTerminalTest, CtrlZStopsTheRunAndTheShellResumesIt) {
  const Folder folder;
  const std::string pid_file = folder.path() + "/pid";
  // A signal takes effect a moment after it was sent.
  const std::string script =
      launch_line(1, "echo $$ >" + pid_file + "; echo ready; read line; echo got $line.") +
      "; echo status $?; for pid in $(cat " + pid_file +
      ") $(jobs -p); do"
      " until grep -q State:.T /proc/$pid/status; do :; done; done; echo both stopped;"
      "fg; echo status $?";
  Terminal terminal({"bash", "-mc", script});
  ASSERT_TRUE(terminal.wait_for("ready")) << terminal.text();
  terminal.type(kCtrlZ);
  ASSERT_TRUE(terminal.wait_for("status 148")) << terminal.text();
  EXPECT_TRUE(terminal.wait_for("both stopped")) << terminal.text();
  terminal.type("hello\n");
  EXPECT_TRUE(terminal.wait_for("got hello.")) << terminal.text();
  EXPECT_TRUE(terminal.wait_for("status 0")) << terminal.text();
}

// If no shell could resume it, as in a container, the run continues.
TEST(LaunchTerminalTest, CtrlZIsIgnoredWithoutAShellToResumeTheRun) {
  Terminal terminal(
      {DISTRUN_PROGRAM, "launch", "sh", "-c", "echo ready; read line; echo got $line."});
  ASSERT_TRUE(terminal.wait_for("ready")) << terminal.text();
  terminal.type(kCtrlZ);
  terminal.type("hello\n");
  EXPECT_TRUE(terminal.wait_for("got hello.")) << terminal.text();
  EXPECT_EQ(terminal.end(), ProcessEnd(ExitedWith{0}));
}

TEST(LaunchTerminalTest, ShowsThePromptsOfSeveralWorkers) {
  Terminal terminal({DISTRUN_PROGRAM, "launch", "--nproc-per-node", "2", "--prefix", "[${rank}] ",
                     "bash", "-c", "printf \"name $RANK? \"; read name; echo it is $name."});
  ASSERT_TRUE(terminal.wait_for("name 1? ")) << terminal.text();
  if (terminal.text().find("name 0? ") == std::string::npos) {
    ASSERT_TRUE(terminal.wait_for("name 0? ")) << terminal.text();
  }
  terminal.type("Ann\n");
  EXPECT_TRUE(terminal.wait_for("it is Ann.")) << terminal.text();
  EXPECT_EQ(terminal.end(), ProcessEnd(ExitedWith{0})) << terminal.text();
}

TEST(LaunchTerminalTest, SummaryDoesNotRepeatATracebackThatWasPrinted) {
  Terminal terminal({DISTRUN_PROGRAM, "launch", "--nproc-per-node", "2", "sh", "-c",
                     "[ $RANK = 1 ] || exec sleep 1000;"
                     "printf 'Traceback (most recent call last):\\n  File \"a.py\", line 1\\n"
                     "ValueError: no digit\\n' >&2; exit 1"});
  ASSERT_TRUE(terminal.wait_for("distrun then stopped")) << terminal.text();
  EXPECT_EQ(terminal.end(), ProcessEnd(ExitedWith{1}));
  const std::string text = terminal.text();
  const std::size_t summary = text.find("distrun: rank 1 failed");
  ASSERT_NE(summary, text.npos) << text;
  EXPECT_LT(text.find("Traceback"), summary) << text;
  EXPECT_GT(text.find("Traceback", summary), text.find("  command: ")) << text;
  EXPECT_NE(text.find("  error: ValueError: no digit"), text.npos) << text;
  EXPECT_EQ(text.find("last lines"), text.npos) << text;
}

TEST(LaunchTerminalTest, HangupOfTheTerminalEndsTheRun) {
  UniqueFd worker;
  {
    Terminal terminal({DISTRUN_PROGRAM, "launch", "sh", "-c", "echo pid $$.; exec sleep 1000"});
    ASSERT_TRUE(terminal.wait_for("pid ") && terminal.wait_for(".")) << terminal.text();
    const std::size_t at = terminal.text().find("pid ") + 4;
    worker = watch(terminal.text().substr(at, terminal.text().find('.', at) - at));
    terminal.hang_up();
    EXPECT_EQ(terminal.end(), ProcessEnd(ExitedWith{128 + SIGHUP}));
  }
  EXPECT_TRUE(ends(worker));
}

}  // namespace
}  // namespace distrun
