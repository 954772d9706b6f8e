// Real launches that show the state of their workers on SIGUSR1.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/test/launch.h"

namespace distrun {
namespace {

using ::testing::ContainsRegex;
using testing::Folder;
using testing::run_program;

// Runs two workers of `script`, with the launcher's stderr in its stdout; asks as soon as "ready"
// is printed, and ends the run after the answer.
std::string answer_to_usr1(const std::string& script) {
  testing::SignalsByDefault signals;
  testing::ProgramOptions options;
  bool asked = false, ended = false;
  options.on_output = [&](const std::string& out, int pid) {
    if (!asked && out.find("ready") != std::string::npos) {
      asked = true;
      ::kill(pid, SIGUSR1);
    }
    const auto table = out.find("state\n");
    const bool answered =
        table != std::string::npos &&
        std::count(out.begin() + static_cast<std::ptrdiff_t>(table), out.end(), '\n') >= 3;
    if (answered && !ended) {
      ended = true;
      ::kill(pid, SIGTERM);
    }
  };
  const auto result =
      run_program({"sh", "-c", R"(exec "$0" launch --nproc-per-node 2 sh -c "$1" 2>&1)",
                   DISTRUN_PROGRAM, script},
                  options);
  EXPECT_FALSE(result.timed_out);
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{128 + SIGTERM})) << "SIGUSR1 ends nothing";
  return result.out;
}

// Rank 0 waits until rank 1 has stopped itself.
TEST(WorkerTableOfARunTest, StoppedWorkerIsInCapitals) {
  const Folder folder;
  const std::string pid_file = folder.path() + "/pid";
  const auto out = answer_to_usr1(
      "if [ $RANK = 1 ]; then echo $$ >" + pid_file + ".new; mv " + pid_file + ".new " + pid_file +
      "; kill -STOP $$; fi; until [ -e " + pid_file + " ]; do :; done; read pid <" + pid_file +
      "; until grep -q '^State:.T' /proc/$pid/status; do :; done;"
      "echo ready; exec sleep 1000");
  EXPECT_THAT(out, ContainsRegex("distrun: the workers of attempt 0:\n"
                                 "rank +pid .* state\n"
                                 "   0 .* 1  (sleeping|running)\n"
                                 "   1 .* 1  STOPPED\n"));
}

TEST(WorkerTableOfARunTest, CountsTheProcessesOfAWorker) {
  const auto out = answer_to_usr1(
      "[ $RANK = 0 ] || exec sleep 1000; sleep 1000 & sleep 1000 & echo ready; wait");
  EXPECT_THAT(out, ContainsRegex("   0 .* 3  (sleeping|running)\n"));
}

// The leaked process reports that it has ended, and holds its output open for two seconds.
TEST(WorkerTableOfARunTest, ShowsHowAWorkerEnded) {
  const auto out = answer_to_usr1(
      "[ $RANK = 0 ] || exec sleep 1000; (until grep -q '^State:.Z' /proc/$$/status; do :; done;"
      "echo ready; exec sleep 1000) & exit 0");
  EXPECT_THAT(out, ContainsRegex("   0 .*  exit code 0(; ITS OUTPUT IS STILL OPEN)?\n"));
}

}  // namespace
}  // namespace distrun
