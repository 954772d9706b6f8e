// Real checks, in environments that a user without privileges can break.
// testsuites/engines/check_test.py breaks networks and file systems.
#include <filesystem>
#include <fstream>
#include <future>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/test/launch.h"
#include "common/os/host_name.h"

namespace distrun {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::lines;
using ::testing::Not;
using testing::own_address;
using testing::ProgramOptions;
using testing::ProgramResult;
using testing::run_program;
using ::testing::StartsWith;
using Words = std::vector<std::string>;

constexpr const char* kPrefix = "distrun check: ";

class CheckTest : public ::testing::Test {
 protected:
  CheckTest() {
    healthy_.environment.set("TMPDIR", folder_.path());
    healthy_.environment.set("GLOO_SOCKET_IFNAME", "lo");
    healthy_.environment.set("OMP_NUM_THREADS", "1");
    healthy_.environment.set("PYTHON_EXEC", "/no/python");
  }

  static ProgramResult check(Words words, const ProgramOptions& options) {
    words.insert(words.begin(), {DISTRUN_PROGRAM, "check"});
    ProgramResult result = run_program(words, options);
    EXPECT_FALSE(result.timed_out) << result.err;
    EXPECT_EQ(result.out, "");
    return result;
  }

  // Checks two nodes, and returns what node 0 prints. Node 1 prints nothing.
  static ProgramResult check_two(const ProgramOptions& first, const ProgramOptions& second) {
    const std::string address = own_address();
    const auto node = [&](int rank, const ProgramOptions& options) {
      const Words words = {"--nnodes",      "2",     "--node-rank", std::to_string(rank),
                           "--master-addr", address, "--rdzv-conf", "timeout=50"};
      return std::async(std::launch::async, [words, options] { return check(words, options); });
    };
    auto node_0 = node(0, first), node_1 = node(1, second);
    const ProgramResult other = node_1.get();
    ProgramResult result = node_0.get();
    EXPECT_EQ(other.err, "");
    EXPECT_EQ(other.end, result.end);
    return result;
  }

  // The findings, without those that this machine always has.
  static Words new_lines(const ProgramResult& result, const ProgramResult& before) {
    Words found = lines(result.err);
    for (const std::string& line : lines(before.err)) std::erase(found, line);
    EXPECT_EQ(result.end, ProcessEnd(ExitedWith{result.err.empty() ? 0 : 1})) << result.err;
    return found;
  }

  Words found_here(const ProgramOptions& options) {
    return new_lines(check({}, options), check({}, healthy_));
  }
  Words found_on_two(const ProgramOptions& first, const ProgramOptions& second) {
    return new_lines(check_two(first, second), check_two(healthy_, healthy_));
  }

  ProgramOptions with(const std::string& name, const std::string& value) const {
    ProgramOptions options = healthy_;
    options.environment.set(name, value);
    return options;
  }

  // A program in place of Python.
  std::string python(const std::string& name, const std::string& script) {
    const std::string path = folder_.path() + '/' + name;
    std::ofstream(path) << "#!/bin/sh\n" << script << '\n';
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    return path;
  }

  // A program in place of ssh, which runs the command on this machine, which is broken.
  std::string ssh() {
    return python("ssh",
                  "while [ \"$1\" != -T ]; do shift; done\n"
                  "command=$3\n"
                  "eval \"$command\"");
  }
  ProgramOptions on_hosts() const {
    ProgramOptions options = with("TMPDIR", "/no/folder");
    options.environment.set("XDG_CACHE_HOME", folder_.path());
    options.environment.unset("DISTRUN_HOSTS_NODES");
    return options;
  }

  const std::string node_0_ = fmt::format("node 0 ({})", host_name());
  const std::string node_1_ = fmt::format("node 1 ({})", host_name());
  testing::Folder folder_;
  ProgramOptions healthy_;
};

TEST_F(CheckTest, AHealthyNodeIsSilent) { EXPECT_THAT(found_here(healthy_), IsEmpty()); }

TEST_F(CheckTest, HealthyNodesAreSilent) {
  EXPECT_THAT(found_on_two(healthy_, healthy_), IsEmpty());
}

TEST_F(CheckTest, FindsALowLimitOfOpenFiles) {
  const ProgramResult low =
      run_program({"sh", "-c", "ulimit -n 200 && exec \"$0\" check", DISTRUN_PROGRAM}, healthy_);
  EXPECT_THAT(
      new_lines(low, check({}, healthy_)),
      ElementsAre("distrun check: a process can open only 200 files: raise the limit (ulimit -n "
                  "16384)"));
}

TEST_F(CheckTest, FindsAMissingFolderForTemporaryFiles) {
  EXPECT_THAT(found_here(with("TMPDIR", "/no/folder")),
              ElementsAre("distrun check: the folder for temporary files, /no/folder (TMPDIR), "
                          "does not exist: make it, or set TMPDIR to another folder"));
}

TEST_F(CheckTest, FindsMissingInterfacesOfOneNode) {
  EXPECT_THAT(
      found_on_two(healthy_, with("GLOO_SOCKET_IFNAME", "eth77")),
      ElementsAre(StartsWith(kPrefix + node_1_ +
                             ": the interface eth77 of GLOO_SOCKET_IFNAME does not exist: choose "
                             "from ")));
  EXPECT_THAT(found_here(with("NCCL_SOCKET_IFNAME", "=eth77")),
              ElementsAre(StartsWith("distrun check: no interface that is up and has an IP address "
                                     "fits NCCL_SOCKET_IFNAME==eth77: choose from ")));
}

TEST_F(CheckTest, FindsDifferentVersionsOfPyTorch) {
  const std::string one = python("one", "echo 2.12.0"), two = python("two", "echo 2.13.0");
  constexpr const char* kRemedy =
      ": install the same version on all nodes, or give the Python that has it (PYTHON_EXEC)";
  EXPECT_THAT(found_on_two(with("PYTHON_EXEC", one), with("PYTHON_EXEC", two)),
              ElementsAre("distrun check: the version of PyTorch differs: 2.12.0 on " + node_0_ +
                          ", 2.13.0 on " + node_1_ + kRemedy));
  EXPECT_THAT(found_on_two(with("PYTHON_EXEC", one), healthy_),
              ElementsAre("distrun check: the version of PyTorch differs: 2.12.0 on " + node_0_ +
                          ", none on " + node_1_ + kRemedy));
}

TEST_F(CheckTest, DoesNotWaitForAPythonThatHangs) {
  const std::string hangs = python("hangs", "exec sleep 1000");
  EXPECT_THAT(found_on_two(with("PYTHON_EXEC", hangs), healthy_), IsEmpty());
}

TEST_F(CheckTest, FindsVariablesThatDiffer) {
  ProgramOptions other = with("NCCL_DEBUG", "INFO");
  other.environment.set("OMP_NUM_THREADS", "");
  EXPECT_THAT(found_on_two(with("NCCL_DEBUG", "WARN"), other),
              AllOf(Contains(fmt::format("distrun check: NCCL_DEBUG differs: WARN on "
                                         "{}, INFO on {}: set the same value on all "
                                         "nodes",
                                         node_0_, node_1_)),
                    Contains(fmt::format("distrun check: OMP_NUM_THREADS differs: 1 on "
                                         "{}, not set on {}: set the same value on all "
                                         "nodes",
                                         node_0_, node_1_))));
}

TEST_F(CheckTest, TasksOfOneNodeReportOnce) {
  ProgramOptions task = with("TMPDIR", "/no/folder");
  for (const auto& [name, value] :
       {std::pair("SLURM_STEP_ID", "0"), std::pair("SLURM_JOB_ID", "78"),
        std::pair("SLURM_STEP_NUM_TASKS", "2"), std::pair("SLURM_STEP_NUM_NODES", "1"),
        std::pair("SLURM_NODEID", "0"), std::pair("SLURM_STEP_TASKS_PER_NODE", "2"),
        std::pair("SLURM_STEP_NODELIST", "localhost")}) {
    task.environment.set(name, value);
  }
  task.environment.unset("OMP_NUM_THREADS");
  const std::string address = own_address();
  const auto run_task = [&](const char* number) {
    task.environment.set("SLURM_PROCID", number);
    task.environment.set("SLURM_LOCALID", number);
    return std::async(std::launch::async, [address, task] {
      return check({"--master-addr", address, "--rdzv-conf", "timeout=50"}, task);
    });
  };
  auto task_0 = run_task("0"), task_1 = run_task("1");
  const ProgramResult told = task_0.get(), silent = task_1.get();
  EXPECT_THAT(told.err, HasSubstr("distrun check: the folder for temporary files, /no/folder"));
  EXPECT_EQ(silent.err, "");
  EXPECT_EQ(told.end, ProcessEnd(ExitedWith{1}));
  EXPECT_EQ(silent.end, ProcessEnd(ExitedWith{1}));
}

TEST_F(CheckTest, ChecksOtherHosts) {
  const std::string address = own_address();
  const ProgramResult result =
      check({"--ssh", ssh(), "--hosts", fmt::format("{0}:8,me@{0}", address)}, on_hosts());
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{1}));
  for (const int node : {0, 1}) {
    EXPECT_THAT(result.err,
                HasSubstr(fmt::format("distrun check: node {} ({}): the folder for temporary "
                                      "files, /no/folder (TMPDIR), does not exist",
                                      node, address)));
  }
  EXPECT_THAT(result.err, Not(HasSubstr("failed")));
}

// On a machine that is healthy.
TEST_F(CheckTest, ALaunchAfterASilentCheckRuns) {
  if (!check({}, healthy_).err.empty()) GTEST_SKIP() << "distrun check finds problems here";
  const auto launch = [&](const Words& flags) {
    Words words = {DISTRUN_PROGRAM, "launch", "--check"};
    words.insert(words.end(), flags.begin(), flags.end());
    words.insert(words.end(), {"sh", "-c", "echo rank $RANK"});
    return std::async(std::launch::async, [this, words] { return run_program(words, healthy_); });
  };
  const ProgramResult alone = launch({}).get();
  EXPECT_EQ(alone.end, ProcessEnd(ExitedWith{0})) << alone.err;
  EXPECT_EQ(alone.out + alone.err, "rank 0\n");
  const std::string address = own_address();
  auto node_0 = launch({"--nnodes=2", "--node-rank=0", "--master-addr", address}),
       node_1 = launch({"--nnodes=2", "--node-rank=1", "--master-addr", address});
  EXPECT_EQ(node_1.get().out, "rank 1\n");
  EXPECT_EQ(node_0.get().out, "rank 0\n");
}

TEST_F(CheckTest, ALaunchAfterAFindingStartsNothing) {
  const ProgramOptions broken = with("TMPDIR", "/no/folder");
  const ProgramResult result =
      run_program({DISTRUN_PROGRAM, "launch", "--check", "echo", "ran"}, broken);
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{1}));
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, HasSubstr("distrun check: the folder for temporary files, /no/folder"));
}

TEST_F(CheckTest, ASignalDuringTheCheckEndsTheLaunch) {
  const testing::SignalsByDefault by_default;
  const std::string python_of_check = python("python", "kill -TERM $LAUNCH; exec sleep 100");
  const ProgramResult result =
      run_program({"sh", "-c", "LAUNCH=$$ exec \"$0\" launch --check echo ran", DISTRUN_PROGRAM},
                  with("PYTHON_EXEC", python_of_check));
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{143})) << result.err;
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, Not(HasSubstr("guard")));
}

TEST_F(CheckTest, ALaunchOnHostsChecksThemOnce) {
  const ProgramResult result = run_program({DISTRUN_PROGRAM, "launch", "--check", "--ssh", ssh(),
                                            "--hosts", own_address(), "echo", "ran"},
                                           on_hosts());
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{1})) << result.err;
  EXPECT_EQ(result.out, "");
  const std::string finding = "distrun check: the folder for temporary files, /no/folder";
  const std::size_t first = result.err.find(finding);
  ASSERT_NE(first, result.err.npos) << result.err;
  EXPECT_EQ(result.err.find(finding, first + 1), result.err.npos) << result.err;
}

TEST_F(CheckTest, AMissingNodeIsAnErrorOfTheLaunch) {
  const ProgramResult result = check({"--nnodes", "2", "--node-rank", "0", "--master-addr",
                                      own_address(), "--rdzv-conf", "timeout=1"},
                                     healthy_);
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{125})) << result.err;
  EXPECT_THAT(result.err, HasSubstr("node 1"));
}

}  // namespace
}  // namespace distrun
