// Real launches: flags and their variables, the name torchrun, --dry-run.
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/os/cpu_set.h"
#include "common/test/folder.h"
#include "launcher/test/numa_tree.h"
#include "launcher/test/run_program.h"

namespace distrun {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::ProgramOptions;
using testing::ProgramResult;
using testing::run_program;
using ::testing::StartsWith;
using Words = std::vector<std::string>;

class FlagsLaunchTest : public ::testing::Test {
 public:
  FlagsLaunchTest() {
    std::filesystem::create_symlink(DISTRUN_PROGRAM, folder_ + "/torchrun");
    options_.environment.set("CUDA_VISIBLE_DEVICES", "");
  }

 protected:
  ProgramResult run(Words program, const Words& arguments) {
    program.insert(program.end(), arguments.begin(), arguments.end());
    ProgramResult result = run_program(program, options_);
    EXPECT_FALSE(result.timed_out) << result.err;
    return result;
  }
  ProgramResult launch(const Words& arguments) {
    return run({DISTRUN_PROGRAM, "launch"}, arguments);
  }
  ProgramResult torchrun(const Words& arguments) { return run({folder_ + "/torchrun"}, arguments); }

  // The output of one worker under these flags.
  std::string seen(Words flags, const std::string& words) {
    flags.insert(flags.end(), {"--no-python", "sh", "-c", "echo " + words});
    const ProgramResult result = launch(flags);
    EXPECT_EQ(result.end, ProcessEnd(ExitedWith{0})) << result.err;
    return result.out;
  }

  const testing::Folder own_;
  const std::string folder_ = own_.path();
  ProgramOptions options_;
};

TEST_F(FlagsLaunchTest, RendezvousFlagsWorkAsInTorchrun) {
  constexpr const char* kPlace = "$MASTER_ADDR $TORCHELASTIC_RUN_ID";
  EXPECT_THAT(seen({}, "$TORCHELASTIC_RUN_ID"), ::testing::MatchesRegex("[0-9a-f-]{36}\n"));
  EXPECT_EQ(seen({"--master-port=0"}, kPlace), "127.0.0.1 none\n");
  EXPECT_EQ(seen({"--rdzv-id", "mine", "--standalone"}, kPlace), "127.0.0.1 mine\n");
  EXPECT_EQ(seen({"--rdzv-backend=c10d", "--rdzv-endpoint=node7"}, kPlace), "127.0.0.1 none\n");
  EXPECT_EQ(seen({"--rdzv-endpoint=127.0.0.2:0"}, kPlace), "127.0.0.2 none\n");
  EXPECT_EQ(seen({"--master-addr", "127.0.0.3", "--rdzv-id=x"}, kPlace), "127.0.0.3 x\n");
  EXPECT_EQ(seen({"--local-addr=127.0.0.4", "--rdzv-id=x"}, kPlace), "127.0.0.4 x\n");
}

TEST_F(FlagsLaunchTest, SignalsAreNamedForTheWorkersAsPythonNamesThem) {
  EXPECT_EQ(seen({"--signals-to-handle=term,2"}, "$TORCHELASTIC_SIGNALS_TO_HANDLE"),
            "SIGTERM,SIGINT\n");
}

TEST_F(FlagsLaunchTest, AcceptsPythonFlagsThatChangeNothing) {
  EXPECT_EQ(seen({"--start-method=fork", "--monitor-interval", "5", "--event-log-handler=null",
                  "--logs-specs=", "--rdzv-conf=timeout=900", "--nnodes=1:1", "--node-rank=0",
                  "--max-restarts=0", "--shutdown-timeout=3"},
                 "done"),
            "done\n");
}

TEST_F(FlagsLaunchTest, RefusedFlagsSayWhatToDo) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"--nnodes=1:2",
       "--nnodes: elastic runs (MIN:MAX) are not supported yet; give a fixed number of nodes"},
      {"--nnodes=2:1", "--nnodes: '2:1': the first number is larger than the second"},
      {"--nnodes=0", "--nnodes: 0 is not between"},
      {"--node-rank=1", "--node-rank: 1 is not less than --nnodes 1"},
      {"--rdzv-backend=etcd", "--rdzv-backend: 'etcd' is not supported"},
      {"--rdzv-endpoint=node7", "--rdzv-endpoint: 'node7' has no port"},
      {"--rdzv-conf=timeout", "--rdzv-conf: 'timeout' is not KEY=VALUE"},
      {"--start-method=thread", "--start-method: 'thread' is not spawn, fork or forkserver"},
      {"--monitor-interval=often", "--monitor-interval: 'often' is not a number of seconds"},
      {"--event-log-handler=console", "--events FILE"},
      {"--logs-specs=mine", "--logs-specs: 'mine' is a Python plug-in"},
      {"--numa-binding=node", "--numa-binding: no GPU is visible"},
      {"--numa-binding=everywhere",
       "--numa-binding: 'everywhere' is not node, socket, exclusive or core-complex"},
      {"--numa-binding=", "--numa-binding: '' is not node, socket, exclusive or core-complex"},
      {"--max-restarts=-1", "--max-restarts: -1 is not between"},
      {"--signals-to-handle=SIGKILL",
       "--signals-to-handle: SIGKILL cannot be handled or forwarded"},
      {"--signals-to-handle=32", "--signals-to-handle: SIG32 cannot be handled or forwarded"},
      {"--forward-signals=PIPE", "--forward-signals: SIGPIPE cannot be handled or forwarded"},
      {"--forward-signals=USR1,TERM", "--forward-signals: SIGTERM ends the run"},
      {"--nproc-per-node=gpu", "--nproc-per-node: 'gpu': no GPU is visible"},
      {"--bogus", "unknown flag --bogus"},
  };
  for (const auto& [flag, message] : cases) {
    const auto result = launch({flag, "echo", "started"});
    EXPECT_EQ(result.end, ProcessEnd(ExitedWith{2})) << flag;
    EXPECT_THAT(result.err, AllOf(StartsWith("distrun launch: "), HasSubstr(message))) << flag;
    EXPECT_EQ(result.out, "") << flag;
  }
}

TEST_F(FlagsLaunchTest, RejectsSingleNodeFlagsForSeveralNodes) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"--standalone", "--standalone runs one node; remove --standalone or --nnodes 2"},
      {"--rdzv-backend=c10d", "--rdzv-backend: c10d is not supported with several nodes yet"},
      {"--master-port=0", "--master-port: several nodes need a fixed port, the same on every node"},
      {"--rdzv-endpoint=node7:0",
       "--rdzv-endpoint: several nodes need a fixed port, the same on every node"},
      {"--rdzv-conf=timeout=soon", "--rdzv-conf: "},
      {"--same-user", "--same-user: would refuse the other nodes"},
      {"--store=file:meet", "--store: several nodes need the TCP store"},
      {"--node-rank=2", "--node-rank: 2 is not less than --nnodes 2"},
  };
  for (const auto& [flag, message] : cases) {
    const auto result = launch({"--nnodes=2", flag, "echo", "started"});
    EXPECT_EQ(result.end, ProcessEnd(ExitedWith{2})) << flag;
    EXPECT_THAT(result.err, AllOf(StartsWith("distrun launch: "), HasSubstr(message))) << flag;
    EXPECT_EQ(result.out, "") << flag;
  }
}

TEST_F(FlagsLaunchTest, NamesTheVariableThatHasAWrongValue) {
  options_.environment.set("PET_NODE_RANK", "1");
  EXPECT_THAT(launch({"echo"}).err,
              StartsWith("distrun launch: PET_NODE_RANK: 1 is not less than --nnodes 1"));
  EXPECT_EQ(launch({"--node-rank=0", "echo", "x"}).out, "x\n") << "the command line wins";
}

TEST_F(FlagsLaunchTest, FlagOverridesTheVariableForTheShutdownTimeout) {
  options_.environment.set("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "soon");
  EXPECT_THAT(launch({"echo"}).err,
              HasSubstr("TORCH_ELASTIC_SHUTDOWN_TIMEOUT: 'soon' is not a number of seconds"));
  EXPECT_EQ(launch({"--shutdown-timeout=1", "echo", "x"}).out, "x\n");
}

TEST_F(FlagsLaunchTest, VirtualLocalRankRequiresADeviceForEachWorker) {
  options_.environment.set("CUDA_VISIBLE_DEVICES", "5");
  EXPECT_EQ(seen({"--virtual-local-rank"}, "$LOCAL_RANK $CUDA_VISIBLE_DEVICES"), "0 5\n");
  const auto result = launch({"--virtual-local-rank", "--nproc-per-node=2", "echo", "started"});
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{2}));
  EXPECT_THAT(result.err, HasSubstr("CUDA_VISIBLE_DEVICES=5 has no device for local rank 1"));
  EXPECT_EQ(result.out, "");
}

// PYTHON_EXEC shows the chosen command without running Python.
TEST_F(FlagsLaunchTest, AsTorchrunAProgramIsAScriptByDefault) {
  options_.environment.set("PYTHON_EXEC", "echo");
  const std::string script = folder_ + "/train";
  std::ofstream(script) << "print('hello')\n";
  EXPECT_EQ(torchrun({"--nproc_per_node=1", script, "-x"}).out, "-u " + script + " -x\n");
  EXPECT_EQ(torchrun({"-m", "pkg.train"}).out, "-u -m pkg.train\n");
  EXPECT_EQ(torchrun({"--no-python", "echo", "x"}).out, "x\n");
  EXPECT_EQ(launch({"echo", "x"}).out, "x\n");
  EXPECT_EQ(launch({"--run-path", "--no-python", script}).out, "-u " + script + "\n");
}

TEST_F(FlagsLaunchTest, AsTorchrunItNamesItselfTorchrun) {
  EXPECT_THAT(torchrun({"--help"}).out,
              StartsWith("Start workers, print their output, and stop all workers if one fails.\n\n"
                         "Usage: torchrun [flags] PROGRAM"));
  EXPECT_THAT(torchrun({"--bogus", "x"}).err,
              StartsWith("torchrun: unknown flag --bogus\nTry 'torchrun --help'.\n"));
  EXPECT_THAT(torchrun({"--role=x"}).err, StartsWith("torchrun: PROGRAM is required\n"));
  EXPECT_THAT(torchrun({"--no-python", "no-such-program"}).err,
              StartsWith("torchrun: no-such-program: not found"));
}

TEST_F(FlagsLaunchTest, DryRunStartsNothingAndPrintsShellCommands) {
  options_.environment.set("DISTRUN_TEST_INHERITED", "not to be printed");
  const std::string file = folder_ + "/started";
  const auto result = launch({"--dry-run", "--nproc-per-node=2", "--master-port=29", "sh", "-c",
                              "touch " + file + "; echo $RANK \"it's\" $MASTER_PORT"});
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{0})) << result.err;
  EXPECT_EQ(result.err, "");
  EXPECT_THAT(result.out, Not(HasSubstr("DISTRUN_TEST_INHERITED")));
  EXPECT_FALSE(std::filesystem::exists(file));
  EXPECT_EQ(run_program({"sh", "-c", result.out}).out, "0 it's 29\n1 it's 29\n");
}

TEST_F(FlagsLaunchTest, DryRunReportsAMissingProgram) {
  EXPECT_EQ(launch({"--dry-run", "no-such-program"}).end, ProcessEnd(ExitedWith{127}));
}

// Runs distrun in a mount namespace whose /proc, /sys and /dev describe two GPUs near one CPU.
class BoundLaunchTest : public FlagsLaunchTest {
 public:
  BoundLaunchTest() {
    options_.environment.unset("CUDA_VISIBLE_DEVICES");
    options_.environment.set("TREE", tree_.root());
    options_.environment.set("DISTRUN", DISTRUN_PROGRAM);
    tree_.add_gpu("0000:17:00.0", 0, "GPU-aaaa", 0);
    tree_.add_gpu("0000:2a:00.0", 1, "GPU-bbbb", 0);
    tree_.add_node(0, cpu_list(cpu_));
    tree_.write("/dev/null", "");
  }

 protected:
  // False if this process may not make mount namespaces.
  bool has_namespaces() {
    return run_program(in_namespace("true"), options_).end == ProcessEnd(ExitedWith{0});
  }

  ProgramResult bound(const Words& arguments) {
    return run(in_namespace(R"(exec "$DISTRUN" launch --numa-binding node "$@")"), arguments);
  }

  const CpuSet cpu_ = {*usable_cpus().rbegin()};
  const testing::NumaTree tree_;

 private:
  static Words in_namespace(const std::string& command) {
    const std::string script = R"(
        mount --bind "$TREE/proc/driver" /proc/driver
        mount --bind "$TREE/sys" /sys
        mount --bind /dev/null "$TREE/dev/null"
        mount --rbind "$TREE/dev" /dev
        )" + command;
    return {"unshare", "--user", "--map-root-user", "--mount", "sh", "-ec", script, "sh"};
  }
};

TEST_F(BoundLaunchTest, WorkersAndTheirChildrenRunOnCpusNearTheirGpus) {
  if (!has_namespaces()) GTEST_SKIP() << "mount namespaces are not permitted here";
  const std::string list = cpu_list(cpu_) + "\n";
  const std::string script =
      "sed -n 's/Cpus_allowed_list:\t//p' /proc/$$/status /proc/self/status;"
      "exit $((1 - TORCHELASTIC_RESTART_COUNT))";
  const auto result =
      bound({"--nproc-per-node=2", "--max-restarts=1", "--no-python", "sh", "-c", script});
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{0})) << result.err;
  // Two workers, twice; the first failure may end the other worker before it prints.
  EXPECT_THAT(result.out, StartsWith(list + list + list + list)) << result.err;
  EXPECT_THAT(result.out, ::testing::MatchesRegex("(" + list + ")+"));
}

TEST_F(BoundLaunchTest, DryRunShowsCpus) {
  if (!has_namespaces()) GTEST_SKIP() << "mount namespaces are not permitted here";
  const auto result = bound({"--nproc-per-node=2", "--dry-run", "echo"});
  EXPECT_THAT(result.out, StartsWith("# rank 0 of 2, on CPUs " + cpu_list(cpu_) + "\n"))
      << result.err;
}

TEST_F(BoundLaunchTest, MoreWorkersThanGpusDoNotStart) {
  if (!has_namespaces()) GTEST_SKIP() << "mount namespaces are not permitted here";
  const auto result = bound({"--nproc-per-node=3", "echo", "started"});
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{2}));
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(result.err,
            "distrun launch: --numa-binding: 3 workers need 3 visible GPUs, but there are only 2; "
            "give --nproc-per-node 2, or remove the flag\n");
}

TEST_F(BoundLaunchTest, NamesTheFileThatCannotBeRead) {
  if (!has_namespaces()) GTEST_SKIP() << "mount namespaces are not permitted here";
  tree_.remove("/sys/bus/pci/devices/0000:2a:00.0/numa_node");
  const auto result = bound({"echo", "started"});
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{2}));
  EXPECT_EQ(result.err,
            "distrun launch: --numa-binding: cannot read /sys/bus/pci/devices/0000:2a:00.0/"
            "numa_node: no such file or directory; remove the flag\n");
}

}  // namespace
}  // namespace distrun
