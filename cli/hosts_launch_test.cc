// `distrun launch --hosts` with a program in place of ssh, which runs the command on this machine.
// testsuites/engines/ssh_test.py has ssh itself.
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/test/launch.h"

namespace distrun {
namespace {

using ::testing::ElementsAre;
using testing::ends;
using ::testing::HasSubstr;
using testing::launch;
using testing::lines;
using ::testing::Not;
using testing::own_address;
using testing::ProgramOptions;
using testing::ProgramResult;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;
using testing::watch;
using Words = std::vector<std::string>;

class HostsLaunchTest : public ::testing::Test {
 protected:
  // Its options and the host precede the command. Each host has its own home.
  HostsLaunchTest() {
    write_ssh("eval \"$command\"");
    options_.environment.set("XDG_CACHE_HOME", "");
    options_.environment.set("TEST_HOMES", folder_.path());
    options_.environment.unset("DISTRUN_HOSTS_NODES");
  }

  void write_ssh(const std::string& act) {
    std::filesystem::remove(ssh());
    std::ofstream(ssh()) << "#!/bin/sh\n"
                            "while [ \"$1\" != -T ]; do shift; done\n"
                            "host=$2 command=$3\n"
                            "export HOME=$TEST_HOMES/$host; mkdir -p $HOME\n"
                         << act << '\n';
    std::filesystem::permissions(ssh(), std::filesystem::perms::owner_all);
  }

  std::string ssh() const { return folder_.path() + "/ssh"; }

  ProgramResult run(Words words) {
    words.insert(words.begin(), {"--ssh", ssh(), "--shutdown-timeout", "5"});
    return launch(std::move(words), options_);
  }

  // On two hosts.
  ProgramResult run_two(const std::string& script) {
    return run({"--hosts", fmt::format("{0}:2,me@{0}:1", address_), "sh", "-c", script});
  }

  const std::string address_ = own_address();
  testing::Folder folder_;
  ProgramOptions options_;
};

TEST_F(HostsLaunchTest, StartsTheWorkersOfAllHosts) {
  const ProgramResult result =
      run_two("echo $RANK of $WORLD_SIZE, node $GROUP_RANK, store $MASTER_ADDR; pwd");
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{0})) << result.err;
  const std::string here = std::filesystem::current_path();
  EXPECT_THAT(
      lines(result.out),
      UnorderedElementsAre("0 of 3, node 0, store " + address_, "1 of 3, node 0, store " + address_,
                           "2 of 3, node 1, store " + address_, here, here, here));
  EXPECT_EQ(result.err, "");
}

TEST_F(HostsLaunchTest, CopiesDistrunOnce) {
  const auto copies = [&] {
    std::vector<std::string> names;
    const std::string folder = folder_.path() + '/' + address_ + "/.cache/distrun/bin";
    for (const auto& file : std::filesystem::directory_iterator(folder)) {
      names.push_back(file.path().filename());
    }
    return names;
  };
  EXPECT_EQ(run({"--hosts", address_, "true"}).end, ProcessEnd(ExitedWith{0}));
  EXPECT_THAT(copies(), ElementsAre(StartsWith("distrun-")));
  const auto written = std::filesystem::last_write_time(folder_.path() + '/' + address_ +
                                                        "/.cache/distrun/bin/" + copies().front());
  EXPECT_EQ(run({"--hosts", address_, "true"}).end, ProcessEnd(ExitedWith{0}));
  EXPECT_THAT(copies(), ElementsAre(StartsWith("distrun-")));
  EXPECT_EQ(std::filesystem::last_write_time(folder_.path() + '/' + address_ +
                                             "/.cache/distrun/bin/" + copies().front()),
            written);
}

TEST_F(HostsLaunchTest, AFailureEndsTheRunOnAllHostsWithOneSummary) {
  const ProgramResult result = run_two("[ $RANK = 2 ] && exit 7; exec sleep 100");
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{7})) << result.err;
  EXPECT_THAT(lines(result.err).front(),
              "distrun: node 1 (" + address_ + "): rank 2 failed: exit code 7");
  const std::size_t first = result.err.find("rank 2 failed");
  EXPECT_EQ(result.err.find("rank 2 failed", first + 1), result.err.npos) << result.err;
}

TEST_F(HostsLaunchTest, WorkersMayExitWith255) {
  EXPECT_EQ(run_two("exit 255").end, ProcessEnd(ExitedWith{255}));
}

TEST_F(HostsLaunchTest, ASignalEndsTheRunOnAllHosts) {
  options_.on_output = [done = false](const std::string& out, int pid) mutable {
    if (done || lines(out).size() < 3) return;
    done = true;
    ::kill(pid, SIGTERM);
  };
  const ProgramResult result =
      run_two("trap 'echo checkpoint; exit 0' TERM; echo $$; sleep 100 & wait");
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{128 + SIGTERM})) << result.err;
  EXPECT_EQ(lines(result.out).size(), 6U) << result.out;
  EXPECT_THAT(lines(result.out).back(), "checkpoint");
}

TEST_F(HostsLaunchTest, AKilledDistrunLeavesNothing) {
  std::vector<UniqueFd> workers;
  options_.on_output = [&](const std::string& out, int pid) {
    if (!workers.empty() || lines(out).size() < 3) return;
    for (const std::string& line : lines(out)) workers.push_back(watch(line));
    ::kill(pid, SIGKILL);
  };
  const ProgramResult result = run_two("echo $$; exec sleep 100");
  EXPECT_EQ(result.end, ProcessEnd(KilledBy{SIGKILL}));
  ASSERT_EQ(workers.size(), 3U);
  for (const UniqueFd& worker : workers) EXPECT_TRUE(ends(worker));
}

TEST_F(HostsLaunchTest, AHostThatCannotBeReachedStartsNothing) {
  write_ssh("[ $host = b ] && { echo no route >&2; exit 255; }\neval \"$command\"");
  const ProgramResult result = run(
      {"--master-addr", address_, "--hosts", address_ + ",b", "touch", folder_.path() + "/ran"});
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{125}));
  EXPECT_EQ(result.err,
            "no route\ndistrun launch: b: ssh ended with exit code 255 before distrun was ready "
            "there; try: " +
                ssh() + " b true\n");
  EXPECT_FALSE(std::filesystem::exists(folder_.path() + "/ran"));
}

TEST_F(HostsLaunchTest, ALostConnectionEndsTheRun) {
  // The second host's ssh ends when its worker says so; the agent there sees its stdin end.
  write_ssh("[ $host = me@" + address_ +
            " ] || { eval \"$command\"; exit; }\n"
            "mkfifo $HOME/in; exec 3<&0; cat <&3 >$HOME/in & cat=$!\n"
            "eval \"$command\" <$HOME/in &\n"
            "while [ ! -e $TEST_HOMES/cut ]; do sleep 0.05; done; kill $cat; exit 255");
  const ProgramResult result =
      run_two(fmt::format("[ $RANK = 2 ] && touch {}/cut; exec sleep 100", folder_.path()));
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{125})) << result.err;
  EXPECT_THAT(result.err,
              HasSubstr(fmt::format("distrun: the connection to me@{} is lost\n", address_)));
}

TEST_F(HostsLaunchTest, AHostThatCannotStartItsWorkersEndsTheRunWithItsError) {
  write_ssh("[ $host = me@" + address_ +
            " ] && cd / && rm -f $TEST_HOMES/worker\neval \"$command\"");
  const std::string worker = folder_.path() + "/worker";
  std::ofstream(worker) << "#!/bin/sh\nexec sleep 100\n";
  std::filesystem::permissions(worker, std::filesystem::perms::owner_all);
  // Node 0 waits for a node that never comes, until distrun ends the run.
  const ProgramResult result = launch({"--ssh", ssh(), "--shutdown-timeout", "0.5", "--hosts",
                                       fmt::format("{0}:1,me@{0}:1", address_), worker},
                                      options_);
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{127})) << result.err;
  EXPECT_THAT(result.err, HasSubstr("distrun launch: " + worker + ": no such file\n"));
  EXPECT_THAT(result.err, Not(HasSubstr("is lost")));
}

TEST_F(HostsLaunchTest, VariablesOfAHostSetNoFlags) {
  write_ssh("export PET_HOSTS=no-such-host PET_NNODES=7 PET_ROLE=mine; eval \"$command\"");
  const ProgramResult result = run_two("echo $ROLE_NAME $WORLD_SIZE");
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{0})) << result.err;
  EXPECT_EQ(result.out, "default 3\ndefault 3\ndefault 3\n");
}

TEST_F(HostsLaunchTest, AKilledSshIsALostConnection) {
  write_ssh("[ $host != " + address_ + " ] || kill -9 $$; eval \"$command\"");
  const ProgramResult early = run_two("true");
  EXPECT_EQ(early.end, ProcessEnd(ExitedWith{125}));
  EXPECT_THAT(early.err, HasSubstr("ssh ended with signal SIGKILL (9) before distrun was ready "
                                   "there; try: " +
                                   ssh() + " " + address_ + " true\n"));
}

// Before the launch of a host is ready for it, the signal would kill the launch.
TEST_F(HostsLaunchTest, AnEarlySignalThatAsksForStacksDoesNotEndTheRun) {
  EXPECT_EQ(run({"--hosts", address_, "true"}).end, ProcessEnd(ExitedWith{0}));  // Copies distrun.
  write_ssh("for i in $(seq 60); do kill -USR1 $PPID; sleep 0.001; done & eval \"$command\"");
  const ProgramResult result = run({"--hosts", address_, "--nproc-per-node", "2", "sh", "-c",
                                    "for i in 1 2 3 4 5; do echo $i; done"});
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{0})) << result.err;
}

TEST_F(HostsLaunchTest, IgnoresWhatTheShellPrints) {
  write_ssh("echo Welcome; echo \"$host\"; printf unfinished; eval \"$command\"");
  const ProgramResult result = run({"--hosts", address_, "echo", "hello"});
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{0})) << result.err;
  EXPECT_EQ(result.out, "hello\n");
}

TEST_F(HostsLaunchTest, PassesVariables) {
  options_.environment.set("NCCL_DEBUG", "x y'z");
  options_.environment.set("MINE", "1");
  options_.environment.set("OTHER", "2");
  write_ssh("unset NCCL_DEBUG MINE OTHER; eval \"$command\"");
  const ProgramResult result =
      run({"--pass-env", "MINE", "--hosts", address_, "sh", "-c", "echo $NCCL_DEBUG $MINE $OTHER"});
  EXPECT_EQ(result.out, "x y'z 1\n") << result.err;
}

TEST_F(HostsLaunchTest, SaysThatTheFolderIsMissing) {
  const std::string folder = folder_.path() + "/gone";
  std::filesystem::create_directory(folder);
  write_ssh("rmdir " + folder + "; eval \"$command\"");
  const ProgramResult result =
      testing::run_program({"sh", "-c",
                            fmt::format("cd {} && exec {} launch --ssh {} --hosts {} true", folder,
                                        DISTRUN_PROGRAM, ssh(), address_)},
                           options_);
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{125}));
  EXPECT_THAT(result.err, HasSubstr(folder + ": no such file or directory; the folder in which you "
                                             "start distrun must exist on all hosts\n"));
}

TEST_F(HostsLaunchTest, NeedsACurrentFolder) {
  const std::string folder = folder_.path() + "/gone";
  std::filesystem::create_directory(folder);
  const ProgramResult result = testing::run_program(
      {"sh", "-c",
       fmt::format("cd {0} && rmdir {0} && exec {1} launch --ssh {2} --hosts {3} true", folder,
                   DISTRUN_PROGRAM, ssh(), address_)},
      options_);
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{2}));
  EXPECT_THAT(result.err,
              StartsWith("distrun launch: --hosts: the current folder does not exist any more\n"));
}

TEST_F(HostsLaunchTest, PrintsThePlan) {
  const ProgramResult result =
      run({"--dry-run", "--check", "--hosts", "a:2,me@b:1", "train.py", "--lr", "1 2"});
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{0})) << result.err;
  EXPECT_THAT(result.out, HasSubstr("# node 1 of 2, over: " + ssh() + " me@b\ncd "));
  EXPECT_THAT(result.out, HasSubstr("DISTRUN_HOSTS_ADDRESS=a \\\n"));
  EXPECT_THAT(result.out, HasSubstr("\n  distrun launch --shutdown-timeout=5 --nproc-per-node=1 -- "
                                    "train.py --lr '1 2'\n"));
}

struct Refused {
  Words flags;
  std::string problem;
};

TEST_F(HostsLaunchTest, RejectsWhatContradictsHosts) {
  const std::vector<Refused> cases = {
      {{"--hosts", "a,b", "--nnodes", "2"},
       "--nnodes: cannot be combined with --hosts, which lists the nodes"},
      {{"--hosts", "a,b", "--node-rank", "0"},
       "--node-rank: cannot be combined with --hosts, which lists the nodes"},
      {{"--hosts", "a,b", "--standalone"},
       "--standalone: cannot be combined with --hosts, which lists the nodes"},
      {{"--hosts", "localhost,b"},
       "--hosts: on the other hosts, 'localhost' is not node 0 but the host itself; give the name "
       "of node 0 that the others know, or --master-addr"},
      {{"--hosts", "a:x"}, "--hosts: 'x' is neither a number nor 'cpu', 'gpu' or 'auto'"},
      {{"--hosts", "a", "--max-restarts", "x"}, "--max-restarts: "},
      {{"--hosts", "a", "--nproc-per-node", "x"}, "--nproc-per-node: "},
      {{"--hosts", "a,b", "--master-port", "0"},
       "--master-port: several nodes need a fixed port, the same on every node"},
      {{"--hosts", "a", "--ssh", " "}, "--ssh: needs a command"},
      {{"--ssh", "ssh"}, "--ssh: has no effect without --hosts"},
      {{"--pass-env", "A"}, "--pass-env: has no effect without --hosts"},
  };
  for (const auto& [flags, problem] : cases) {
    Words words = flags;
    words.emplace_back("true");
    const ProgramResult result = launch(words, options_);
    EXPECT_EQ(result.end, ProcessEnd(ExitedWith{2})) << problem;
    EXPECT_THAT(result.err, StartsWith("distrun launch: " + problem));
  }
}

TEST_F(HostsLaunchTest, SaysThatSshIsMissing) {
  const ProgramResult result = launch({"--ssh", "no-such-ssh", "--hosts", "a", "true"}, options_);
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{127}));
  EXPECT_EQ(result.err, "distrun launch: --ssh: no-such-ssh: not found on PATH\n");
}

}  // namespace
}  // namespace distrun
