// Launches as in a container: a termination message, and distrun as process 1.
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/termination_log.h"
#include "cli/test/launch.h"
#include "common/os/unique_fd.h"

namespace distrun {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::launch;
using testing::ProgramOptions;
using testing::ProgramResult;
using testing::run_program;
using ::testing::StartsWith;
using Words = std::vector<std::string>;

TEST(TerminationMessageTest, IsCutAtALineOrElseAtACharacter) {
  const std::string line(99, 'x');
  std::string text;
  for (int i = 0; i < 50; ++i) text += line + '\n';
  EXPECT_EQ(termination_message(text), text.substr(0, 4000)) << "40 lines";
  EXPECT_EQ(termination_message(text.substr(0, 4096)), text.substr(0, 4096));
  const std::string accent = "é";
  std::string long_line = "x";
  while (long_line.size() < 5000) long_line += accent;
  EXPECT_EQ(termination_message(long_line), long_line.substr(0, 4095));
  EXPECT_EQ(termination_message(""), "");
}

TEST(TerminationMessageTest, OnlyPodsHaveAFileByDefault) {
  Environment environment;
  EXPECT_EQ(default_termination_log(environment), "");
  environment.set("KUBERNETES_SERVICE_HOST", "10.96.0.1");
  EXPECT_EQ(default_termination_log(environment), "/dev/termination-log");
  environment.set("TORCHELASTIC_RUN_ID", "outer");
  EXPECT_EQ(default_termination_log(environment), "") << "the outer run writes it";
}

class TerminationLogTest : public ::testing::Test {
 protected:
  TerminationLogTest() { std::ofstream(log_) << before_; }

  std::string logged() const {
    std::ifstream file(log_);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  ProgramResult run(const std::string& script, const std::string& log) const {
    return launch({"--nproc-per-node", "2", "--termination-log", log, "sh", "-c", script});
  }

  const testing::Folder folder_;
  const std::string log_ = folder_.path() + "/log";
  const std::string before_ = std::string(8000, 'b');  // Longer than any message.
};

TEST_F(TerminationLogTest, SaysWhoFailedFirst) {
  const auto result = run("[ $RANK = 1 ] || exec sleep 1000; echo because; exit 3", log_);
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{3}));
  EXPECT_THAT(logged(), AllOf(StartsWith("distrun: rank 1 failed: exit code 3\n  local rank 1 on "),
                              HasSubstr("  last lines:\n    because\n")));
}

// On the console, the output is right above.
TEST_F(TerminationLogTest, ContainsTheLastLinesOfASingleWorker) {
  launch({"--termination-log", log_, "sh", "-c", "echo because; exit 3"});
  EXPECT_THAT(logged(), HasSubstr("  last lines:\n    because\n"));
}

TEST_F(TerminationLogTest, ContainsErrorsBeforeTheStart) {
  const auto result = launch({"--termination-log", log_, "/no/program"});
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{127}));
  EXPECT_EQ(logged(), result.err);
}

TEST_F(TerminationLogTest, IsReplacedInPlace) {
  struct stat before {
  }, after{};
  ASSERT_EQ(::stat(log_.c_str(), &before), 0);
  run("exit 3", log_);
  ASSERT_EQ(::stat(log_.c_str(), &after), 0);
  EXPECT_EQ(before.st_ino, after.st_ino) << "a mount cannot be replaced";
}

TEST_F(TerminationLogTest, StaysAsItIsIfTheRunSucceeds) {
  EXPECT_EQ(run("exit 0", log_).end, ProcessEnd(ExitedWith{0}));
  EXPECT_EQ(logged(), before_);
}

TEST_F(TerminationLogTest, IsNotCreated) {
  const std::string missing = folder_.path() + "/missing";
  for (const std::string& path : {missing, std::string()}) {
    const auto result = run("exit 3", path);
    EXPECT_EQ(result.end, ProcessEnd(ExitedWith{3}));
    EXPECT_THAT(result.err, ::testing::Not(HasSubstr("--termination-log")));
  }
  EXPECT_FALSE(std::filesystem::exists(missing));
}

TEST_F(TerminationLogTest, AFileThatCannotBeWrittenDoesNotChangeTheStatus) {
  const auto result = run("exit 3", folder_.path());
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{3}));
  EXPECT_THAT(result.err, HasSubstr("distrun: --termination-log: write " + folder_.path() +
                                    ": is a directory\n"));
}

TEST_F(TerminationLogTest, ContainsNoMoreThanKubernetesAccepts) {
  ASSERT_TRUE(TerminationLog(log_).write(std::string(5000, 'x')));
  EXPECT_EQ(logged(), std::string(4096, 'x'));
}

TEST_F(TerminationLogTest, DoesNotWaitForAReader) {
  const std::string fifo = folder_.path() + "/fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_FALSE(TerminationLog(fifo).write("text"));
}

TEST_F(TerminationLogTest, IsNotStdout) {
  const auto result = run("exit 3", "/dev/stdout");
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{2}));
  EXPECT_THAT(result.err, StartsWith("distrun launch: --termination-log: stdout has the output of "
                                     "the workers; give a file\n"));
}

TEST_F(TerminationLogTest, SaysThatDistrunWasKilled) {
  ProgramOptions options;
  options.on_output = [done = false](const std::string&, int distrun) mutable {
    if (done) return;
    done = true;
    // The second guard.
    std::ifstream list("/proc/" + std::to_string(distrun) + "/task/" + std::to_string(distrun) +
                       "/children");
    int child = 0;
    ASSERT_TRUE(list >> child);
    ::kill(child, SIGKILL);
  };
  const auto result =
      launch({"--termination-log", log_, "sh", "-c", "echo up; exec sleep 1000"}, options);
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{128 + SIGKILL}));
  EXPECT_THAT(logged(), StartsWith("distrun: the second guard (pid "));
}

// distrun as process 1 of a namespace of processes.
class ProcessOneTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto tried = run_program({"unshare", "--pid", "--fork", "--mount-proc", "true"}, {});
    if (tried.end != ProcessEnd(ExitedWith{0})) {
      GTEST_SKIP() << "namespaces are not permitted here: " << tried.err;
    }
    options_.environment.set("FOLDER", folder_.path());
  }

  ProgramResult launch_as_process_one(const std::string& script) const {
    ProgramResult result =
        run_program({"unshare", "--pid", "--fork", "--kill-child", "--mount-proc", DISTRUN_PROGRAM,
                     "launch", "sh", "-c", script},
                    options_);
    EXPECT_FALSE(result.timed_out) << result.out << result.err;
    return result;
  }

  static std::vector<int> children_of(int pid) {
    const std::string id = std::to_string(pid);
    std::ifstream list("/proc/" + id + "/task/" + id + "/children");
    return {std::istream_iterator<int>(list), {}};
  }
  // Calls `act` with the pid of distrun, once the worker has printed something.
  void once_up(std::function<void(int distrun)> act) {
    options_.on_output = [done = false, act](const std::string&, int unshare) mutable {
      if (done) return;
      done = true;
      const auto children = children_of(unshare);
      ASSERT_EQ(children.size(), 1u);
      act(children.front());
    };
  }

  const testing::SignalsByDefault signals_;
  const testing::Folder folder_;
  ProgramOptions options_;
};

TEST_F(ProcessOneTest, ExitsWithTheStatusOfTheWorker) {
  EXPECT_EQ(launch_as_process_one("[ $PPID != 1 ] && exit 7").end, ProcessEnd(ExitedWith{7}));
}

TEST_F(ProcessOneTest, SigtermEndsTheRun) {
  once_up([](int distrun) { ::kill(distrun, SIGTERM); });
  const auto result = launch_as_process_one(
      "trap 'echo checkpoint; exit 0' TERM; echo up; while :; do sleep 0.01; done");
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{128 + SIGTERM}));
  EXPECT_EQ(result.out, "up\ncheckpoint\n") << "the kernel does not kill the worker";
  EXPECT_THAT(result.err, HasSubstr("distrun: ended by signal SIGTERM (15)\n"));
}

// The worker waits until its orphaned grandchild is not even a zombie.
TEST_F(ProcessOneTest, ReapsOrphansOfWorkers) {
  const auto result = launch_as_process_one(
      "sh -c 'setsid sh -c \"echo \\$\\$ >$FOLDER/orphan; exec sleep 0\" &'; "
      "until [ -s $FOLDER/orphan ]; do sleep 0.01; done; "
      "while [ -d /proc/$(cat $FOLDER/orphan) ]; do sleep 0.01; done; echo reaped");
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{0})) << result.err;
  EXPECT_EQ(result.out, "reaped\n");
}

// The orphans of `kubectl exec` belong to no process of the run.
TEST_F(ProcessOneTest, ReapsOrphansThatAreNotOfTheRun) {
  const std::string fifo = folder_.path() + "/fifo", up = folder_.path() + "/up";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  const UniqueFd writer(::open(fifo.c_str(), O_RDWR | O_CLOEXEC));  // Does not wait for the reader.
  once_up([&](int distrun) {
    // The orphan leaves the process group, which run_program() kills at the end.
    const ProgramResult entered =
        run_program({"nsenter", "--target", std::to_string(distrun), "--pid", "sh", "-c",
                     "setsid sh -c ': >" + up + "; read end <" + fifo +
                         "' >/dev/null 2>&1 & until [ -e " + up + " ]; do :; done"},
                    {});
    ASSERT_EQ(entered.end, ProcessEnd(ExitedWith{0})) << entered.err;
    EXPECT_EQ(children_of(distrun).size(), 2u) << "the orphan and the second guard";
    ASSERT_EQ(::write(writer.get(), "end\n", 4), 4);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (children_of(distrun).size() != 1 && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::yield();
    }
    EXPECT_EQ(children_of(distrun).size(), 1u) << "a zombie";
    ::kill(distrun, SIGTERM);
  });
  EXPECT_EQ(launch_as_process_one("echo up; exec sleep 1000").end,
            ProcessEnd(ExitedWith{128 + SIGTERM}));
}

}  // namespace
}  // namespace distrun
