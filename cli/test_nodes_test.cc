// The flags of `distrun test` for several nodes, variables of engines, and --hosts with a program
// in place of ssh.
#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/given_test_flags.h"
#include "cli/test/launch.h"
#include "cli/test_command.h"
#include "cli/test_nodes_flags.h"
#include "common/os/host_name.h"
#include "launcher/engines/ssh_hosts.h"

namespace distrun {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::own_address;
using testing::ProgramOptions;
using testing::ProgramResult;
using testing::run_program;
using Words = std::vector<std::string>;

class TestNodesTest : public ::testing::Test {
 protected:
  TestNodesTest() {
    options_.environment.set("XDG_CACHE_HOME", file("cache"));
    std::ofstream(file("check.py")) << "\n";
  }

  std::string file(const std::string& name) const { return folder_.path() + "/" + name; }

  ProgramResult run(Words arguments, const std::string& program = DISTRUN_PROGRAM) const {
    arguments.insert(arguments.begin(), {program, "test"});
    ProgramResult result = run_program(arguments, options_);
    EXPECT_FALSE(result.timed_out) << result.err;
    return result;
  }

  ProgramResult list(Words arguments) const {
    arguments.insert(arguments.end(), {"--binary", FAKE_TEST_HOST, "--list", "fake.Rank.passes"});
    return run(std::move(arguments));
  }

  void refuses(const Words& arguments, const std::string& problem) const {
    const ProgramResult result = run(arguments);
    EXPECT_EQ(result.end, ProcessEnd(ExitedWith{2})) << problem;
    EXPECT_EQ(result.err, "distrun test: " + problem + "\nTry 'distrun test --help'.\n");
    EXPECT_EQ(result.out, "");
  }

  testing::Folder folder_;
  ProgramOptions options_;
};

TEST_F(TestNodesTest, RejectsImpossiblePlacesByFlag) {
  refuses({"--nnodes", "2", "--node-rank", "2"}, "--node-rank: 2 is not less than --nnodes 2");
  refuses({"--nnodes", "2"},
          "--master-addr: several nodes need the address of node 0, the same on every node");
  refuses({"--nnodes", "1:4"},
          "--nnodes: elastic runs (MIN:MAX) are not supported yet; give a fixed number of nodes");
  refuses({"--nnodes", "2", "--rdzv-endpoint", "gpu-0"},
          "--rdzv-endpoint: 'gpu-0' has no port; give HOST:PORT");
  refuses({"--nnodes", "2", "--master-addr", "gpu-0", "--master-port", "0"},
          "--master-port: several nodes need a fixed port, the same on every node");
  refuses({"--heartbeat", "0.05"},
          "--heartbeat: 0.05 is less than 0.1; give at least 0.1, or 0 for none");
  refuses({"--ssh", "ssh"}, "--ssh: has no effect without --hosts");
  refuses({"--pass-env", "A"}, "--pass-env: has no effect without --hosts");
}

TEST_F(TestNodesTest, RejectsWhatNeedsOneNode) {
  for (const Words& nodes :
       {Words{"--nnodes", "2", "--master-addr", "gpu-0"}, Words{"--hosts", "a,b"}}) {
    Words python = nodes;
    python.insert(python.end(), {"--", "python3", file("check.py")});
    refuses(python,
            "--: tests in Python are not supported on several nodes, because their ranks meet in a "
            "file; start distrun test on one node");
  }
  refuses({"--nnodes", "2", "--master-addr", "gpu-0", "--rank-under", "1", "gdb"},
          "--rank-under: is not supported on several nodes; start distrun test on one node");
  refuses({"--hosts", "a", "--rank-under", "1", "gdb"},
          "--rank-under: cannot be combined with --hosts; run the test on this machine");
}

TEST_F(TestNodesTest, RejectsWrongHosts) {
  refuses({"--hosts", "a:8,b"},
          "--hosts: 'a:8': a test itself says how many ranks it has; remove ':8'");
  refuses({"--hosts", "a,b", "--nnodes", "2"},
          "--nnodes: cannot be combined with --hosts, which lists the nodes");
  refuses({"--hosts", "localhost,b"},
          "--hosts: on the other hosts, 'localhost' is not node 0 but the host itself; give the "
          "name of node 0 that the others know, or --master-addr");
  refuses({"--hosts", "a", "--ssh", " "}, "--ssh: needs a command");
}

TEST_F(TestNodesTest, OneNodeIsAsWithoutFlags) {
  const ProgramResult result = run({"--nnodes", "1", "--node-rank", "0", "--master-addr", "gpu-0",
                                    "--binary", FAKE_TEST_HOST, "fake.Rank.passes"});
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{0})) << result.err;
  EXPECT_THAT(result.out, EndsWith("\n1 passed, 0 failed, 0 skipped\n"));
}

TEST_F(TestNodesTest, VariablesOfLaunchSetNoFlags) {
  options_.environment.set("PET_NNODES", "2");
  EXPECT_EQ(list({}).out, "fake.Rank.passes\n");
}

TEST_F(TestNodesTest, OnlyNode0Lists) {
  for (const bool is_node_0 : {true, false}) {
    const ProgramResult result = list(
        {"--nnodes", "2", "--node-rank", is_node_0 ? "0" : "1", "--master-addr", own_address()});
    EXPECT_EQ(result.end, ProcessEnd(ExitedWith{0})) << result.err;
    EXPECT_EQ(result.out, is_node_0 ? "fake.Rank.passes\n" : "");
    EXPECT_EQ(result.err, "");
  }
}

// As a task that Slurm started.
class EnginesTestNodesTest : public TestNodesTest {
 protected:
  void set_slurm(const std::string& tasks, const std::string& task, const std::string& counts,
                 const std::string& nodes = "2") {
    for (const auto& [name, value] :
         {std::pair("SLURM_STEP_ID", std::string("0")), std::pair("SLURM_JOB_ID", job_),
          std::pair("SLURM_STEP_NUM_TASKS", tasks), std::pair("SLURM_PROCID", task),
          std::pair("SLURM_LOCALID", std::string("0")), std::pair("SLURM_STEP_NUM_NODES", nodes),
          std::pair("SLURM_NODEID", std::string("0")),
          std::pair("SLURM_STEP_TASKS_PER_NODE", counts),
          std::pair("SLURM_STEP_NODELIST", std::string("n[0-1]"))}) {
      options_.environment.set(name, value);
    }
  }

  // The same command prints nothing as another task.
  void one_task_refuses(const Words& arguments, const std::string& problem) {
    refuses(arguments, problem);
    options_.environment.set("SLURM_PROCID", "1");
    const ProgramResult silent = run(arguments);
    EXPECT_EQ(silent.end, ProcessEnd(ExitedWith{2}));
    EXPECT_EQ(silent.err, "");
    options_.environment.set("SLURM_PROCID", "0");
  }

  const std::string job_ = "77";
};

TEST_F(EnginesTestNodesTest, OneTaskOnEachNodeIsANode) {
  set_slurm("2", "0", "1(x2)");
  EXPECT_EQ(list({}).out, "fake.Rank.passes\n");
  set_slurm("2", "1", "1(x2)");
  EXPECT_EQ(list({}).out, "");
  EXPECT_EQ(list({"--nnodes", "1"}).out, "fake.Rank.passes\n");
}

TEST_F(EnginesTestNodesTest, OneTaskTellsWhatIsWrong) {
  set_slurm("2", "0", "1(x2)");
  one_task_refuses({"--nnodes", "3"},
                   "--nnodes 3, but Slurm started 2 tasks on 2 nodes: remove --nnodes");
  one_task_refuses({"--master-addr", "localhost"},
                   "--master-addr localhost is a loopback address, but Slurm started 2 tasks on 2 "
                   "nodes: give an address of task 0 that the other nodes can reach, or remove "
                   "--master-addr");
  one_task_refuses({"--rank-under", "1", "gdb"},
                   "--rank-under: is not supported on several nodes; start distrun test on one "
                   "node");
}

TEST_F(EnginesTestNodesTest, RejectsSeveralTasksOnANode) {
  set_slurm("3", "0", "2,1");
  one_task_refuses({},
                   "Slurm started 3 tasks on 2 nodes, 2 of them on this node, but tests need "
                   "one task on each node: start one (srun --ntasks-per-node=1), or give "
                   "--nnodes 1 to run all tests in each task");
  // So the advice in the message works.
  EXPECT_EQ(list({"--nnodes", "1"}).out, "fake.Rank.passes\n");
}

TEST_F(EnginesTestNodesTest, OneTaskIsAsWithoutAnEngine) {
  set_slurm("1", "0", "1", "1");
  EXPECT_EQ(list({}).out, "fake.Rank.passes\n");
}

class HostsTestNodesTest : public TestNodesTest {
 protected:
  HostsTestNodesTest() {
    std::ofstream(ssh()) << "#!/bin/sh\n"
                            "while [ \"$1\" != -T ]; do shift; done\n"
                            "echo $2 >>"
                         << file("hosts") << "\nexport HOME=" << folder_.path()
                         << "\neval \"$3\"\n";
    std::filesystem::permissions(ssh(), std::filesystem::perms::owner_all);
    options_.environment.set("XDG_CACHE_HOME", "");
  }

  std::string ssh() const { return file("ssh"); }

  Words connected() const {
    std::ifstream names(file("hosts"));
    return testing::lines({std::istreambuf_iterator<char>(names), {}});
  }
};

TEST_F(HostsTestNodesTest, RunsTestsOnAHost) {
  const ProgramResult result =
      run({"--ssh", ssh(), "--hosts", "a", "--binary", FAKE_TEST_HOST, "--junit",
           file("results.xml"), "fake.Rank.passes", "fake.Rank.fails"});
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{1})) << result.err;
  EXPECT_THAT(result.out, EndsWith("\n1 passed, 1 failed, 0 skipped\n"));
  EXPECT_TRUE(std::filesystem::exists(file("results.xml")));
}

TEST_F(HostsTestNodesTest, RunsAProgramOnAHost) {
  // The ranks are not nodes of --hosts themselves.
  const ProgramResult result =
      run({"--ssh", ssh(), "--hosts", "a", "--show-output", "--", "sh", "-c",
           "echo rank $RANK of $WORLD_SIZE, place ${DISTRUN_HOSTS_NODES-none}"});
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{0})) << result.err;
  EXPECT_THAT(result.out, HasSubstr("rank 1 of 2, place none"));
}

TEST_F(HostsTestNodesTest, ListsOnTheFirstHostOnly) {
  const ProgramResult text = list({"--ssh", ssh(), "--hosts", "a,b"});
  EXPECT_EQ(text.end, ProcessEnd(ExitedWith{0})) << text.err;
  EXPECT_EQ(text.out, "fake.Rank.passes\n");
  EXPECT_THAT(connected(), ElementsAre("a"));
  EXPECT_THAT(list({"--ssh", ssh(), "--hosts", "a,b", "--json"}).out,
              HasSubstr("\"id\": \"fake.Rank.passes\""));
}

TEST_F(HostsTestNodesTest, FindsDistrunsOwnTests) {
  std::filesystem::copy_file(DISTRUN_PROGRAM, file("distrun"));
  std::filesystem::create_symlink(FAKE_TEST_HOST, file("distrun-suites"));
  const ProgramResult result =
      run({"--ssh", ssh(), "--hosts", "a", "--list", "fake.Rank.passes"}, file("distrun"));
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{0})) << result.err;
  EXPECT_EQ(result.out, "fake.Rank.passes\n");
}

TEST_F(HostsTestNodesTest, SaysThatSshIsMissing) {
  const ProgramResult result =
      run({"--ssh", "no-such-ssh", "--hosts", "a", "--binary", FAKE_TEST_HOST});
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{125}));
  EXPECT_EQ(result.err, "distrun test: --ssh: no-such-ssh: not found on PATH\n");
}

std::optional<TestNodes> place_of_test(Words words, const Environment& environment = {}) {
  CLI::App app;
  TestNodesFlags flags;
  flags.add_to(app);
  app.parse(Words(words.rbegin(), words.rend()));
  return flags.place(environment);
}

TEST(TestNodesFlagsTest, ThePlaceComesFromFlags) {
  const TestNodes nodes = place_of_test({"--nnodes", "3", "--node-rank", "1", "--rdzv-endpoint",
                                         "gpu-0:7", "--rdzv-id", "mine", "--heartbeat", "0"})
                              .value();
  EXPECT_EQ(nodes.nodes, 3);
  EXPECT_EQ(nodes.node, 1);
  EXPECT_EQ(nodes.address.text(), "gpu-0:7");
  EXPECT_EQ(nodes.address_flag, "--rdzv-endpoint");
  EXPECT_EQ(nodes.run_id, "mine");
  EXPECT_EQ(nodes.host, host_name());
  EXPECT_EQ(nodes.heartbeat.count(), 0);
}

TEST(TestNodesFlagsTest, DefaultsAreThoseOfLaunch) {
  EXPECT_FALSE(place_of_test({}));
  const TestNodes nodes = place_of_test({"--nnodes", "2", "--master-addr", "gpu-0"}).value();
  EXPECT_EQ(nodes.node, 0);
  EXPECT_EQ(nodes.address.text(), "gpu-0:29500");
  EXPECT_EQ(nodes.address_flag, "--master-addr");
  EXPECT_EQ(nodes.run_id, "none");
  EXPECT_EQ(nodes.heartbeat, std::chrono::seconds(5));
  EXPECT_EQ(nodes.join_timeout, std::chrono::seconds(900));
}

TEST(TestNodesFlagsTest, ThePlaceComesFromHosts) {
  Environment environment;
  set_place(environment,
            {.nodes = 2, .node = 1, .address = "gpu-0", .host = "gpu-1", .id = "some-run"});
  // Only workers of a launch need this variable.
  environment.set("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "x");
  const TestNodes nodes = place_of_test({"--master-port", "7"}, environment).value();
  EXPECT_EQ(nodes.nodes, 2);
  EXPECT_EQ(nodes.node, 1);
  EXPECT_EQ(nodes.address.text(), "gpu-0:7");
  EXPECT_EQ(nodes.run_id, "some-run");
  EXPECT_EQ(nodes.host, "gpu-1");
}

// The arguments of each host for a command line.
Words arguments_of(Words words) {
  CLI::App app;
  const TestCommand test(app);
  words.insert(words.begin(), "test");
  app.parse(Words(words.rbegin(), words.rend()));
  const CLI::App& command = *app.get_subcommand("test");
  return arguments_on_host(given_test_flags(command), command.get_option("NAME")->results(),
                           std::nullopt);
}

TEST(TestArgumentsTest, AHostGetsFlagsAndNames) {
  EXPECT_THAT(arguments_of({}), IsEmpty());
  EXPECT_THAT(arguments_of({"--hosts", "a,b", "--ssh", "ssh -p 7", "--pass-env=A"}), IsEmpty());
  EXPECT_THAT(arguments_of({"mine.Sum", "-k", "a and b", "-j4", "--fail-fast", "--hosts=a,b",
                            "--master_port", "7", "mine.Max"}),
              ElementsAre("--keyword=a and b", "--jobs=4", "--fail-fast", "--master-port=7",
                          "mine.Sum", "mine.Max"));
  EXPECT_THAT(arguments_of({"--binary", "a", "--binary", "b", "--shuffle=false"}),
              ElementsAre("--binary=a", "--binary=b"));
}

TEST(TestArgumentsTest, TheCommandIsLast) {
  EXPECT_THAT(arguments_on_host({{.name = "timeout", .group = "Running", .values = {"30"}}},
                                {"ring.Program.main"}, Words{"./ring", "--hosts", "x y"}),
              ElementsAre("--timeout=30", "ring.Program.main", "--", "./ring", "--hosts", "x y"));
}

}  // namespace
}  // namespace distrun
