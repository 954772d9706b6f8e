// Real launches of workers that fail and report why: programs with record(), Python programs with
// @record, and torchrun instead of distrun.
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "cli/test/launch.h"
#include "common/crash/error_file.h"

namespace distrun {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using testing::Folder;
using ::testing::HasSubstr;
using testing::launch;
using testing::launch_shell;
using ::testing::Not;
using testing::ProgramOptions;
using testing::ProgramResult;
using testing::run_program;

constexpr const char* kOneError = R"(printf '{"message": {"message": "E: from %s", "extraInfo":)"
                                  R"( {"timestamp": "5"}}}' $RANK >$TORCHELASTIC_ERROR_FILE;)";

ProgramOptions without_own_error_file() {
  ProgramOptions options;
  options.environment.set("TORCHELASTIC_ERROR_FILE", "");
  return options;
}

std::string own_file(const Folder& folder) { return folder.path() + "/own.json"; }

ProgramOptions with_own_error_file(const Folder& folder) {
  ProgramOptions options;
  options.environment.set("TORCHELASTIC_ERROR_FILE", own_file(folder));
  return options;
}

TEST(LaunchErrorTest, SummaryShowsTheCulpritsErrorFile) {
  const auto result =
      launch_shell(2, std::string("[ $RANK = 1 ] || exec sleep 1000;") + kOneError + "exit 3");
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{3}));
  EXPECT_THAT(result.err, AllOf(HasSubstr("distrun: rank 1 failed: exit code 3\n"),
                                HasSubstr("\n  error: E: from 1\n")));
}

TEST(LaunchErrorTest, WorkersThatLeaveAnErrorAlsoFailed) {
  const Folder folder;
  ASSERT_EQ(::mkfifo((folder.path() + "/fifo").c_str(), 0600), 0);
  ProgramOptions options = without_own_error_file();
  options.environment.set("FIFO", folder.path() + "/fifo");
  const auto result = launch_shell(3,
                                   std::string("[ $RANK != 2 ] || exec sleep 1000;"
                                               "[ $RANK != 1 ] || { read line <$FIFO; exit 3; };"
                                               "trap '") +
                                       "echo told >$TORCHELASTIC_ERROR_FILE; exit 4' TERM;"
                                       "echo ready >$FIFO; while :; do sleep 0.1; done",
                                   options);
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{3}));
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("  also failed: rank 0: exit code 4\n"
                              "    error: cannot read its error file: "),
                    HasSubstr("  distrun then stopped rank 2 (signal SIGTERM (15))\n")));
}

// Any file is read in bounded time and memory.
TEST(LaunchErrorTest, BadErrorFileDoesNotDelayTheRun) {
  for (const std::string made :
       {"rm -f $F; mkfifo $F", "rm -f $F; ln -s /dev/zero $F", "head -c 50000000 /dev/zero >$F",
        "rm -f $F; mkdir $F", "rm -f $F; ln -s $F $F"}) {
    const auto result = launch_shell(1, "F=$TORCHELASTIC_ERROR_FILE;" + made + "; exit 5",
                                     without_own_error_file());
    EXPECT_EQ(result.end, ProcessEnd(ExitedWith{5})) << made;
    EXPECT_THAT(result.err, HasSubstr("  error: cannot read its error file: ")) << made;
  }
}

TEST(LaunchErrorTest, BacktraceOfASignalHasFunctionsAndLines) {
  const auto result = launch({"--nproc-per-node", "2", RECORD_FAILURES, "segv", "1"});
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{139}));
  EXPECT_THAT(result.err, AllOf(HasSubstr("distrun: rank 1 failed: signal SIGSEGV (11)\n"),
                                HasSubstr("\n  error: SIGSEGV: no memory at 0x0\n"
                                          "    #0 touch (record_failures.cc:"),
                                HasSubstr("distrun then stopped rank 0")));
}

TEST(LaunchErrorTest, ReportsWhereAnExceptionWasThrown) {
  const auto result = launch({"--nproc-per-node", "2", RECORD_FAILURES, "noexcept", "1"});
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{1}));
  EXPECT_THAT(result.err, AllOf(HasSubstr("\n  error: std::runtime_error: cannot open it\n    #0 "),
                                HasSubstr(" forbids (record_failures.cc:")));
}

TEST(LaunchErrorTest, SummaryMentionsACoreDump) {
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_CORE, &limit), 0);
  if (limit.rlim_max == 0) GTEST_SKIP() << "no core can be dumped here: ulimit -Hc is 0";
  std::string pattern;
  std::getline(std::ifstream("/proc/sys/kernel/core_pattern"), pattern);
  if (pattern.starts_with('/')) GTEST_SKIP() << "cores go to " << pattern;
  const Folder folder;
  for (const std::string worker : {"kill -SEGV $$", "CORE=1 exec " RECORD_FAILURES " segv"}) {
    const auto result = launch_shell(1, "ulimit -c unlimited; cd " + folder.path() + "; " + worker);
    EXPECT_THAT(result.err, HasSubstr("rank 0 failed: signal SIGSEGV (11), core dumped\n"));
  }
}

TEST(LaunchErrorTest, ForwardsTheCulpritsErrorFileToTheCaller) {
  const Folder folder;
  std::ofstream(own_file(folder)) << "old";
  const auto result = launch_shell(
      2, std::string("[ $RANK = 1 ] || exec sleep 1000;") + kOneError + "kill -SEGV $$",
      with_own_error_file(folder));
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{139}));
  const auto report = read_error_file(own_file(folder)).value();
  ASSERT_TRUE(report);
  EXPECT_EQ(report->message, "E: from 1");
  EXPECT_EQ(report->error_code, -SIGSEGV);
  EXPECT_EQ(report->timestamp, 5);
}

TEST(LaunchErrorTest, NestedLauncherForwardsTheError) {
  const auto result =
      launch({DISTRUN_PROGRAM, "launch", "--nproc-per-node", "2", RECORD_FAILURES, "throw", "1"});
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{1}));
  const std::string outer = result.err.substr(result.err.rfind("distrun: rank 0 failed"));
  EXPECT_THAT(outer, HasSubstr("\n  error: std::runtime_error: cannot open digits \"a\"\n"));
}

TEST(LaunchErrorTest, ReportsAnErrorFileThatCannotBeForwarded) {
  const Folder folder;
  ProgramOptions options;
  options.environment.set("TORCHELASTIC_ERROR_FILE", folder.path() + "/no/such/own.json");
  const auto result = launch_shell(1, std::string(kOneError) + "exit 3", options);
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{3}));
  EXPECT_THAT(result.err, HasSubstr("its error file could not be forwarded: write "));
}

// ---- with Python's torch

class LaunchErrorPythonTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::string(TORCH_PYTHON).empty()) {
      GTEST_SKIP() << "no Python with torch: configure with DISTRUN_TORCH_PYTHON";
    }
  }

  // A program with @record whose rank 1 raises.
  std::string script() const {
    const std::string path = folder_.path() + "/raises.py";
    std::ofstream(path) << "import os, signal\n"
                           "from torch.distributed.elastic.multiprocessing.errors import record\n"
                           "def load(path):\n"
                           "    raise ValueError(f'no such digits: {path}')\n"
                           "@record\n"
                           "def main():\n"
                           "    if os.environ['RANK'] != '1': signal.pause()\n"
                           "    load('a\\udcffb')\n"
                           "main()\n";
    return path;
  }

  static ProgramResult torchrun(std::vector<std::string> arguments,
                                const ProgramOptions& options = without_own_error_file()) {
    arguments.insert(arguments.begin(),
                     {TORCH_PYTHON, "-m", "torch.distributed.run", "--standalone"});
    const auto result = run_program(arguments, options);
    EXPECT_FALSE(result.timed_out) << result.err;
    return result;
  }

  Folder folder_;
};

TEST_F(LaunchErrorPythonTest, SummaryShowsTheErrorOfPythonsRecord) {
  ProgramOptions options = without_own_error_file();
  options.environment.set("PYTHON_EXEC", TORCH_PYTHON);
  const auto result = launch({"--nproc-per-node", "2", script()}, options);
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{1}));
  EXPECT_THAT(result.err.substr(result.err.rfind("distrun: ")),
              AllOf(HasSubstr("distrun: rank 1 failed: exit code 1\n"),
                    HasSubstr("\n  error: ValueError: no such digits: a\uFFFDb\n"),
                    HasSubstr("line 4, in load\n"
                              "        raise ValueError(f'no such digits: {path}')\n")));
}

TEST_F(LaunchErrorPythonTest, TorchrunShowsTheErrorOfRecord) {
  const auto result =
      torchrun({"--no-python", "--nproc-per-node", "2", RECORD_FAILURES, "segv", "1"});
  const std::string report = result.err.substr(result.err.find("Root Cause"));
  EXPECT_THAT(report,
              AllOf(HasSubstr("rank      : 1 (local_rank: 1)"),
                    HasSubstr("traceback : SIGSEGV: no memory at "), HasSubstr("touchEv+0x")));
  const auto thrown =
      torchrun({"--no-python", "--nproc-per-node", "2", RECORD_FAILURES, "throw", "1"});
  EXPECT_THAT(thrown.err.substr(thrown.err.find("Root Cause")),
              AllOf(HasSubstr("exitcode  : 1 "),
                    HasSubstr("traceback : std::runtime_error: cannot open digits \"a\""),
                    HasSubstr("(anonymous namespace)::open_data(")));
}

TEST_F(LaunchErrorPythonTest, TorchrunAroundDistrunShowsTheErrorOfTheWorker) {
  ProgramOptions options = with_own_error_file(folder_);
  options.environment.set("PYTHON_EXEC", TORCH_PYTHON);
  const auto result = torchrun(
      {"--no-python", DISTRUN_PROGRAM, "launch", "--nproc-per-node", "2", script()}, options);
  EXPECT_THAT(result.err.substr(result.err.find("Root Cause")),
              HasSubstr("ValueError: no such digits: a"));
  // torchrun copies it with distrun's exit code, which is the worker's.
  const auto report = read_error_file(own_file(folder_)).value();
  ASSERT_TRUE(report);
  EXPECT_THAT(report->message, HasSubstr("ValueError: no such digits: a"));
  EXPECT_EQ(report->error_code, 1);
}

TEST_F(LaunchErrorPythonTest, DistrunAroundTorchrunShowsTheErrorOfTheWorker) {
  const auto result = launch({TORCH_PYTHON, "-m", "torch.distributed.run", "--no-python",
                              "--nproc-per-node", "2", RECORD_FAILURES, "throw", "1"},
                             without_own_error_file());
  EXPECT_THAT(result.err.substr(result.err.rfind("distrun: rank 0 failed: exit code 1")),
              HasSubstr("\n  error: std::runtime_error: cannot open digits \"a\"\n"));
}

}  // namespace
}  // namespace distrun
