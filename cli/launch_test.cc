// Real launches of the program `distrun`, with shell scripts as workers.
#include "cli/test/launch.h"

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <future>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/os/host_name.h"

namespace distrun {
namespace {

using namespace testing;  // Launches.

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

TEST(LaunchTest, EveryWorkerKnowsItsRankAndFindsTheStore) {
  const auto result = launch_shell(3, "echo $RANK/$WORLD_SIZE $LOCAL_RANK $MASTER_ADDR");
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{0})) << result.err;
  EXPECT_THAT(lines(result.out),
              UnorderedElementsAre("0/3 0 127.0.0.1", "1/3 1 127.0.0.1", "2/3 2 127.0.0.1"));
  EXPECT_EQ(result.err, "");
}

TEST(LaunchTest, DisplaysTheRanksOfItsOnlyNode) {
  const auto result =
      run_program({DISTRUN_PROGRAM, "launch", "--display-map", "--nproc-per-node", "2", "true"});
  EXPECT_EQ(result.err, "distrun: 2 ranks on 1 node\n  node 0 (" + host_name() + "): ranks 0-1\n");
}

TEST(LaunchTest, StdoutAndStderrStayApart) {
  const auto result = launch_shell(1, "echo to out; echo to err >&2");
  EXPECT_EQ(result.out, "to out\n");
  EXPECT_EQ(result.err, "to err\n");
}

// Each line is written in pieces, and other workers write in between.
TEST(LaunchTest, LinesOfSeveralWorkersDoNotMix) {
  const auto result = launch_shell(
      4, "i=0; while [ $i -lt 200 ]; do printf a; printf b; printf \"$RANK\\n\"; i=$((i+1)); done");
  const auto all = lines(result.out);
  EXPECT_EQ(all.size(), 800u);
  EXPECT_THAT(all, Each(MatchesRegex("ab[0-3]")));
}

TEST(LaunchTest, KeepsALastLineWithoutNewline) {
  EXPECT_EQ(launch_shell(1, "printf 'a\\nb'").out, "a\nb");
}

TEST(LaunchTest, MoreOutputThanAPipeHoldsArrivesWhole) {
  const auto result = launch_shell(2, "head -c 3000000 /dev/zero | tr '\\0' x | fold -w 99; echo");
  EXPECT_EQ(std::count(result.out.begin(), result.out.end(), 'x'), 6'000'000);
}

TEST(LaunchTest, TheFirstFailureEndsTheRunWithItsStatus) {
  const auto result = launch_shell(3, "[ $RANK != 1 ] || exit 7; exec sleep 1000");
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{7}));
  EXPECT_THAT(result.err, StartsWith("distrun: rank 1 failed: exit code 7\n"));
  EXPECT_THAT(result.err, HasSubstr("distrun then stopped ranks 0, 2 (signal SIGTERM (15))"));
}

TEST(LaunchTest, ASignalIsReportedByNameAndStatus) {
  const auto result = launch_shell(1, "kill -SEGV $$");
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{139}));
  EXPECT_THAT(result.err, HasSubstr("rank 0 failed: signal SIGSEGV (11)"));
}

TEST(LaunchTest, KillsAWorkerThatIgnoresSigterm) {
  const Folder folder;
  ASSERT_EQ(::mkfifo((folder.path() + "/fifo").c_str(), 0600), 0);
  ProgramOptions options;
  options.environment.set("FIFO", folder.path() + "/fifo");
  const auto result = launch({"--nproc-per-node", "2", "--shutdown-timeout", "0.2", "sh", "-c",
                              "[ $RANK = 0 ] || { read line <\"$FIFO\"; exit 5; };"
                              "trap '' TERM; echo ready >\"$FIFO\"; while :; do sleep 1; done"},
                             options);
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{5}));
  EXPECT_THAT(result.err, HasSubstr("rank 0 (signal SIGKILL (9))"));
}

// A stopped process handles SIGTERM only after SIGCONT.
TEST(LaunchTest, AStoppedWorkerIsEndedToo) {
  const Folder folder;
  ProgramOptions options;
  options.environment.set("PID_FILE", folder.path() + "/pid");
  const auto result = launch_shell(
      2,
      "[ $RANK = 1 ] || { echo $$ >$PID_FILE; kill -STOP $$; sleep 1000; };"
      "until grep -qs '^State:.T' /proc/$(cat $PID_FILE 2>/dev/null)/status; do :; done;"
      "exit 3",
      options);
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{3}));
  EXPECT_THAT(result.err, HasSubstr("rank 0 (signal SIGTERM (15))"));
}

TEST(LaunchTest, TimeoutEndsTheRun) {
  const auto result = launch({"--timeout", "0.2", "sleep", "1000"});
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{124}));
  EXPECT_THAT(result.err, HasSubstr("\ndistrun: timed out after 0.2 s (--timeout)\n"));
}

TEST(LaunchTest, HangEndsTheRun) {
  const auto result = launch({"--hang-after", "0.2", "--nproc-per-node", "2", "sleep", "1000"});
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{75}));
  EXPECT_THAT(result.err, StartsWith("distrun: where the workers are: ranks 0, 1 in "));
  EXPECT_THAT(result.err, HasSubstr("\ndistrun: no progress for 0.2 s (--hang-after)\n"
                                    "  workers at that time: ranks 0, 1 in "));
}

TEST(LaunchTest, HangRestartsTheWorkers) {
  const auto result = launch({"--hang-after", "2", "--max-restarts", "1", "sh", "-c",
                              "[ $TORCHELASTIC_RESTART_COUNT = 1 ] || exec sleep 1000; echo done"});
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{0})) << result.err;
  EXPECT_EQ(result.out, "done\n");
  EXPECT_THAT(result.err, HasSubstr("no progress for 2 s (--hang-after)"));
}

// Runs longer than --hang-after, with progress of one kind only.
TEST(LaunchTest, ProgressIsOutputOrTrafficOrANewValueInTheStore) {
  const testing::Folder folder;
  const std::string script = folder.path() + "/progress.py";
  std::ofstream(script) << R"(import os, socket, subprocess, sys, time
kind = sys.argv[1]
if kind == "traffic":
    if os.environ["RANK"] == "0":
        server = socket.create_server(("127.0.0.1", 0))
        print(server.getsockname()[1], file=open(sys.argv[2] + "~", "w"), flush=True)
        os.rename(sys.argv[2] + "~", sys.argv[2])
        link = server.accept()[0]
    else:
        while not os.path.exists(sys.argv[2]):
            time.sleep(0.01)
        link = socket.create_connection(("127.0.0.1", int(open(sys.argv[2]).read())))
begin = time.monotonic()
while time.monotonic() < begin + 7:
    if kind == "output":
        print("step", flush=True)
    elif kind == "store":
        subprocess.run([sys.argv[2], "store", "add", "steps", "1"], stdout=subprocess.DEVNULL, check=True)
    elif os.environ["RANK"] == "0":
        link.sendall(b"step")
    else:
        link.recv(4)
    if os.environ["RANK"] == "0" or kind != "traffic":
        time.sleep(0.05)
)";
  const auto run = [&](const std::string& kind, const std::string& argument) {
    return std::async(std::launch::async, [=] {
      return launch({"--hang-after", "5", "--nproc-per-node", "2", script, kind, argument});
    });
  };
  auto output = run("output", ""), store = run("store", DISTRUN_PROGRAM),
       traffic = run("traffic", folder.path() + "/port");
  for (auto* one : {&output, &store, &traffic}) {
    const auto result = one->get();
    EXPECT_EQ(result.end, ProcessEnd(ExitedWith{0})) << result.err;
    EXPECT_EQ(result.err, "");
  }
}

TEST(LaunchTest, ASignalToDistrunEndsTheRunAndIsItsStatus) {
  const SignalsByDefault signals;
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGQUIT}) {
    ProgramOptions options;
    std::set<int> pids;
    bool sent = false;
    options.on_output = [&](const std::string& out, int distrun) {
      const auto all = lines(out);
      if (sent || all.size() < 2 || out.back() != '\n') return;
      for (const auto& pid : all) pids.insert(std::stoi(pid));
      ::kill(distrun, signal);
      sent = true;
    };
    const auto result = launch_shell(2, "echo $$; exec sleep 1000", options);
    EXPECT_EQ(result.end, ProcessEnd(ExitedWith{128 + signal}));
    EXPECT_THAT(result.err, StartsWith("distrun: ended by signal " + signal_name(signal)));
    ASSERT_EQ(pids.size(), 2u);
    for (const int pid : pids) EXPECT_FALSE(is_alive(pid)) << pid;
  }
}

TEST(LaunchTest, IgnoredSignalsStayIgnoredInWorkers) {
  const SignalsByDefault signals;
  ::signal(SIGHUP, SIG_IGN);
  ProgramOptions options;
  options.on_output = [](const std::string&, int distrun) {
    ::kill(distrun, SIGHUP);
    ::kill(distrun, SIGTERM);
  };
  const auto result = launch_shell(1, "kill -HUP $$; echo here; exec sleep 1000", options);
  ::signal(SIGHUP, SIG_DFL);
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{128 + SIGTERM}));
  EXPECT_EQ(result.out, "here\n");
}

TEST(LaunchTest, WorkersDoNotOutliveALauncherThatIsKilled) {
  const Folder folder;  // For files that a killed launcher cannot remove.
  ProgramOptions options;
  options.environment.set("TMPDIR", folder.path());
  std::vector<UniqueFd> workers;
  options.on_output = [&](const std::string& out, int distrun) {
    if (lines(out).size() < 2 || out.back() != '\n') return;
    for (const auto& pid : lines(out)) workers.push_back(watch(pid));
    ::kill(distrun, SIGKILL);
  };
  const auto result = launch_shell(2, "echo $$; exec sleep 1000", options);
  EXPECT_EQ(result.end, ProcessEnd(KilledBy{SIGKILL}));
  ASSERT_EQ(workers.size(), 2u);
  for (const auto& worker : workers) EXPECT_TRUE(ends(worker));
}

TEST(LaunchTest, KillsAndReportsALeakedProcess) {
  ProgramOptions options;
  UniqueFd left_behind;
  options.on_output = [&](const std::string& out, int) {
    if (out.back() == '\n') left_behind = watch(out);
  };
  const auto result = launch_shell(1, "sleep 1000 & echo $!", options);
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{0}));
  EXPECT_THAT(result.err, HasSubstr("rank 0 leaked a process that kept the output open"));
  EXPECT_TRUE(ends(left_behind));
}

TEST(LaunchTest, ReaderThatExitsEndsTheRun) {
  const std::string script =
      std::string(DISTRUN_PROGRAM) + " launch yes | head -n 1; echo ${PIPESTATUS[0]}";
  const auto result = run_program({"bash", "-c", script});
  EXPECT_FALSE(result.timed_out);
  EXPECT_EQ(result.out, "y\n141\n");
}

// Both outputs close at once, which must not count as a second signal that kills.
TEST(LaunchTest, ReaderThatExitsLeavesWorkersTheShutdownTimeout) {
  const Folder folder;
  const std::string saved = folder.path() + "/saved";
  const std::string script = std::string(DISTRUN_PROGRAM) +
                             " launch bash -c 'trap \"echo bye >&2; echo bye; sleep 0.3; touch " +
                             saved + "; exit\" TERM; while echo y; do :; done' 2>&1 | head -n 1";
  EXPECT_EQ(run_program({"bash", "-c", script}).out, "y\n");
  EXPECT_EQ(::access(saved.c_str(), F_OK), 0) << "a worker was killed before it had ended";
}

TEST(LaunchTest, ClosedStandardDescriptorsAreNotMistakenForOthers) {
  const Folder folder;
  const std::string file = folder.path() + "/file";
  for (const std::string closed : {"<&-", ">&-", "2>&-", "<&- >&- 2>&-"}) {
    const std::string script = std::string(DISTRUN_PROGRAM) +
                               " launch sh -c 'cat; echo to out; echo to err >&2; echo done >" +
                               file + "' " + closed + "; cat " + file + "; rm " + file;
    const auto result = run_program({"bash", "-c", script});
    EXPECT_FALSE(result.timed_out) << closed;
    EXPECT_THAT(lines(result.out), ::testing::Contains("done")) << closed;
  }
}

TEST(LaunchTest, SummaryStartsOnANewLine) {
  EXPECT_THAT(launch_shell(1, "printf oops >&2; exit 3").err,
              StartsWith("oops\ndistrun: rank 0 failed: exit code 3\n"));
}

// A terminal without a reader, as over a hung connection.
TEST(LaunchTest, UnreadTerminalDoesNotStopTheTimeout) {
  const std::string program =
      "import os, pty, subprocess, sys\n"
      "master, slave = pty.openpty()\n"
      "print(subprocess.run(sys.argv[1:], stdout=slave, timeout=50).returncode)\n";
  const auto result = run_program({"python3", "-c", program, DISTRUN_PROGRAM, "launch", "--timeout",
                                   "0.5", "--shutdown-timeout", "1", "yes"});
  EXPECT_THAT(result.err, HasSubstr("\ndistrun: timed out after 0.5 s (--timeout)\n"));
  EXPECT_EQ(result.out, "124\n");
}

TEST(LaunchTest, AFullDiskEndsTheRunAndIsNamed) {
  const std::string script = std::string(DISTRUN_PROGRAM) + " launch yes >/dev/full";
  const auto result = run_program({"bash", "-c", script});
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{125}));
  EXPECT_THAT(result.err,
              StartsWith("distrun: write what the workers print: no space left on device"));
}

// The worker exits with its last output still in its pipe, because everything after it is full. The
// reader pauses longer than a leaked process may keep a pipe open.
TEST(LaunchTest, OutputThatWaitsForASlowReaderIsNotLost) {
  const std::string script = "set -o pipefail; " + std::string(DISTRUN_PROGRAM) +
                             " launch sh -c 'yes | head -c 380000' | { sleep 3; wc -c; }";
  const auto result = run_program({"bash", "-c", script});
  EXPECT_EQ(result.out, "380000\n");
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{0}));
  EXPECT_EQ(result.err, "");
}

TEST(LaunchTest, ManyWorkersRunUnderASmallLimitOfDescriptorsAndKeepIt) {
  const std::string script = "ulimit -Sn 64; " + std::string(DISTRUN_PROGRAM) +
                             " launch --nproc-per-node 50 sh -c 'ulimit -Sn' | sort | uniq -c";
  EXPECT_EQ(run_program({"bash", "-c", script}).out, "     50 64\n");
}

// From too few descriptors for distrun itself to enough for a worker.
TEST(LaunchTest, ReportsThatTooFewDescriptorsAreAvailable) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the sanitizers look at memory through pipes: they need descriptors themselves";
#endif
  for (int limit = 4; limit <= 40; limit += 2) {
    const std::string script = "ulimit -n " + std::to_string(limit) + "; exec " +
                               std::string(DISTRUN_PROGRAM) + " launch echo started";
    const auto result = run_program({"bash", "-c", script});
    if (result.end == ProcessEnd(ExitedWith{0})) {
      EXPECT_EQ(result.out, "started\n") << limit;
    } else {
      EXPECT_THAT(result.err, HasSubstr("oo many open files")) << limit;
      EXPECT_EQ(result.end, ProcessEnd(ExitedWith{125})) << limit;
      EXPECT_EQ(result.out, "") << limit;
    }
    if (limit == 40) {
      EXPECT_EQ(result.end, ProcessEnd(ExitedWith{0}));
    }
  }
}

TEST(LaunchTest, RankZeroReadsStandardInput) {
  const std::string script = "echo hello | " + std::string(DISTRUN_PROGRAM) +
                             " launch --nproc-per-node 2 sh -c 'echo $RANK $(cat)'";
  EXPECT_THAT(lines(run_program({"bash", "-c", script}).out), UnorderedElementsAre("0 hello", "1"));
}

TEST(LaunchTest, ErrorFoldersExistOnlyDuringTheRun) {
  const auto result =
      launch_shell(2, "dirname $TORCHELASTIC_ERROR_FILE; echo '{}' >$TORCHELASTIC_ERROR_FILE");
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{0})) << result.err;
  for (const auto& folder : lines(result.out)) EXPECT_NE(::access(folder.c_str(), F_OK), 0);
}

TEST(LaunchTest, ErrorFolderPathIsAbsolute) {
  const Folder folder;
  const std::string program = std::string(DISTRUN_PROGRAM) +
                              " launch sh -c 'cd / && test -d $(dirname $TORCHELASTIC_ERROR_FILE)'";
  for (const std::string temporary : {"TMPDIR=", "TMPDIR=."}) {
    const auto result =
        run_program({"bash", "-c", "cd " + folder.path() + " && " + temporary + " " + program});
    EXPECT_EQ(result.end, ProcessEnd(ExitedWith{0})) << temporary << result.err;
  }
}

TEST(LaunchTest, IgnoresAMissingTmpdir) {
  const Folder folder;
  ProgramOptions options;
  options.environment.set("TMPDIR", "/no/such/folder");
  options.environment.set("TEMP", folder.path());
  const auto result = launch({"sh", "-c", "echo $TORCHELASTIC_ERROR_FILE"}, options);
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{0}));
  EXPECT_THAT(result.out, StartsWith(folder.path() + "/distrun_"));
  EXPECT_EQ(result.err, "");
}

// In a background group of the terminal's session the worker would stop, and the run would hang.
TEST(LaunchTest, WorkerThatOpensTheTerminalGetsAnError) {
  const std::string program =
      std::string(DISTRUN_PROGRAM) + " launch sh -c \"exec </dev/tty; echo read\"";
  const auto result = run_program({"script", "-qec", program, "/dev/null"});
  EXPECT_FALSE(result.timed_out);
  EXPECT_THAT(result.out, HasSubstr("distrun: rank 0 failed: exit code 2"));
}

TEST(LaunchTest, ALimitOnFilesIsAnErrorAndEndsTheRun) {
  const Folder folder;
  const std::string script =
      "ulimit -f 1; " + std::string(DISTRUN_PROGRAM) + " launch yes >" + folder.path() + "/big";
  const auto result = run_program({"bash", "-c", script});
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{125}));
  EXPECT_THAT(result.err, HasSubstr("write what the workers print: file too large"));
}

TEST(LaunchTest, TheProgramKeepsItsOwnFlags) {
  EXPECT_EQ(launch({"echo", "--nproc-per-node", "2", "-h", "--", "x"}).out,
            "--nproc-per-node 2 -h -- x\n");
}

TEST(LaunchTest, ADoubleDashMayStandBeforeTheProgram) {
  EXPECT_EQ(launch({"--nproc-per-node", "2", "--", "echo", "-n", "--"}).out, "--\n--");
  EXPECT_EQ(launch({"--role=x", "--", "echo", "x"}).out, "x\n");
  EXPECT_EQ(launch({"--no-python", "--", "echo", "-x", "y"}).out, "-x y\n");
}

TEST(LaunchTest, AcceptsBothSpellingsAndTorchrunsVariables) {
  ProgramOptions options;
  options.environment.set("PET_NPROC_PER_NODE", "2");
  EXPECT_EQ(launch({"echo", "x"}, options).out, "x\nx\n");
  EXPECT_EQ(launch({"--nproc_per_node=3", "echo", "x"}, options).out, "x\nx\nx\n");
}

TEST(LaunchTest, WrongUsageIsStatusTwoAndStartsNothing) {
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{},
                                             {"--no-such-flag", "echo", "x"},
                                             {"--nproc-per-node", "0", "echo", "x"},
                                             {"--nproc-per-node", "two", "echo", "x"},
                                             {"--master-port", "70000", "echo", "x"},
                                             {"--master-port", "0x50", "echo", "x"},
                                             {"--timeout", "nan", "echo", "x"},
                                             {"--timeout", "-1", "echo", "x"},
                                             {"--timeout", "0", "echo", "x"},
                                             {"--timeout=", "echo", "x"},
                                             {"--shutdown-timeout", "1s", "echo", "x"},
                                             {"--master-addr", "no address", "echo", "x"},
                                             {"--store", "etcd", "echo", "x"},
                                             {"--store", "file:", "echo", "x"},
                                             {"--store", "file:/tmp/a#b", "echo", "x"},
                                             {"--nnodes", "1:2", "echo", "x"}}) {
    const auto result = launch(arguments);
    EXPECT_EQ(result.end, ProcessEnd(ExitedWith{2})) << ::testing::PrintToString(arguments);
    EXPECT_THAT(result.err, StartsWith("distrun launch: "));
    EXPECT_THAT(result.out, IsEmpty());
  }
}

TEST(LaunchTest, SuggestsTheCommandThatWasMeant) {
  const auto result = run_program({DISTRUN_PROGRAM, "lunch", "echo"});
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{2}));
  EXPECT_THAT(result.err, StartsWith("distrun: unknown command lunch: did you mean launch?\n"));
}

TEST(LaunchTest, UnrunnableProgramHasTheShellsStatus) {
  EXPECT_EQ(launch({"no-such-program"}).end, ProcessEnd(ExitedWith{127}));
  EXPECT_EQ(launch({"./no-such-program"}).end, ProcessEnd(ExitedWith{127}));
  EXPECT_EQ(launch({"/etc/passwd"}).end, ProcessEnd(ExitedWith{126}));
}

TEST(LaunchTest, NamesAPortInUseWithStatus125) {
  const auto inner =
      std::string(DISTRUN_PROGRAM) + " launch --master-port $MASTER_PORT true; echo $?";
  const auto result = launch_shell(1, inner);
  EXPECT_EQ(result.out, "125\n");
  EXPECT_THAT(result.err, MatchesRegex("distrun launch: 127.0.0.1:[0-9]+: address already in use "
                                       "by distrun \\(pid [0-9]+\\); give another --master-port, "
                                       "or none for a free one\n"));
}

// Workers rendezvous in a file: PATH in the test's own folder.
class FileStoreLaunchTest : public ::testing::Test {
 protected:
  std::string path() const { return folder_.path() + "/meet"; }
  bool is_there() const { return ::access(path().c_str(), F_OK) == 0; }
  ProgramResult launch_with_file(const std::string& script, const ProgramOptions& options = {}) {
    return launch({"--nproc-per-node", "2", "--store", "file:" + path(), "sh", "-c", script},
                  options);
  }

 private:
  Folder folder_;
};

TEST_F(FileStoreLaunchTest, EveryWorkerFindsTheFileAndNoPort) {
  ProgramOptions options;
  options.environment.set("MASTER_ADDR", "stale");
  options.environment.set("MASTER_PORT", "1");
  const auto result = launch_with_file(
      "test -f ${DISTRUN_INIT_METHOD#file://} &&"
      "echo $RANK/$WORLD_SIZE $DISTRUN_INIT_METHOD ${MASTER_ADDR-none} ${MASTER_PORT-none}"
      " $TORCHELASTIC_USE_AGENT_STORE",
      options);
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{0})) << result.err;
  EXPECT_THAT(lines(result.out), UnorderedElementsAre("0/2 file://" + path() + " none none False",
                                                      "1/2 file://" + path() + " none none False"));
  EXPECT_FALSE(is_there());
}

TEST_F(FileStoreLaunchTest, NestedRunHasItsOwnStore) {
  const auto result = launch_with_file(std::string(DISTRUN_PROGRAM) +
                                       " launch sh -c 'echo ${DISTRUN_INIT_METHOD-none}'");
  EXPECT_EQ(result.out, "none\nnone\n") << result.err;
}

TEST_F(FileStoreLaunchTest, APathMayBeRelativeAndGivenByVariable) {
  const std::string folder = std::filesystem::path(path()).parent_path().string();
  ProgramOptions options;
  options.environment.set("PET_STORE", "file:a rendezvous");
  const std::string script = "cd '" + folder + "' && exec " + DISTRUN_PROGRAM +
                             " launch sh -c 'cd / && test -f \"${DISTRUN_INIT_METHOD#file://}\" &&"
                             " test -f \"$0/a rendezvous\"' '" +
                             folder + "'";
  const auto result = run_program({"bash", "-c", script}, options);
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{0})) << result.err;
}

TEST_F(FileStoreLaunchTest, ExistingFileIsKeptAndStartsNothing) {
  std::ofstream(path()) << "what a run that was killed has left";
  const auto result = launch_with_file("echo started");
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{125}));
  EXPECT_THAT(result.err, AllOf(StartsWith("distrun launch: "), HasSubstr(path()),
                                HasSubstr("give a path that does not exist, or an empty file")));
  EXPECT_EQ(result.out, "");
  EXPECT_TRUE(is_there());
}

TEST_F(FileStoreLaunchTest, TwoRunsCannotShareAFile) {
  const auto result = launch_with_file("[ $RANK = 1 ] || " + std::string(DISTRUN_PROGRAM) +
                                       " launch --store file:'" + path() + "' echo started");
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{125}));
  EXPECT_THAT(result.err, HasSubstr("give a path that does not exist, or an empty file"));
  EXPECT_EQ(result.out, "");
}

TEST_F(FileStoreLaunchTest, AMissingFolderIsNamedAndStartsNothing) {
  const auto result = launch({"--store", "file:/no/such/folder/meet", "echo", "started"});
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{125}));
  EXPECT_THAT(result.err, AllOf(HasSubstr("/no/such/folder/meet: no such file or directory"),
                                HasSubstr("its folder must exist")));
  EXPECT_EQ(result.out, "");
}

TEST_F(FileStoreLaunchTest, TheFileIsGoneAfterAFailure) {
  const auto result = launch_with_file(
      "echo used >>${DISTRUN_INIT_METHOD#file://}; [ $RANK = 1 ] || exec sleep 1000; exit 7");
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{7})) << result.err;
  EXPECT_FALSE(is_there());
}

TEST_F(FileStoreLaunchTest, FileIsGoneIfNoWorkerStarted) {
  const Folder folder;
  const std::string program = folder.path() + "/program";
  std::ofstream(program) << "#!/no/such/interpreter\n";
  ::chmod(program.c_str(), 0700);
  const auto result = launch({"--store", "file:" + path(), program});
  EXPECT_THAT(result.err, StartsWith("distrun: "));
  EXPECT_NE(result.end, ProcessEnd(ExitedWith{0}));
  EXPECT_FALSE(is_there());
}

TEST_F(FileStoreLaunchTest, TheFileIsGoneAfterASignal) {
  const SignalsByDefault signals;
  ProgramOptions options;
  bool sent = false;
  options.on_output = [&](const std::string& out, int distrun) {
    if (sent || out != "there\nthere\n") return;
    ::kill(distrun, SIGTERM);
    sent = true;
  };
  const auto result = launch_with_file(
      "test -f ${DISTRUN_INIT_METHOD#file://} && echo there;"
      "exec sleep 1000",
      options);
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{128 + SIGTERM}));
  EXPECT_TRUE(sent);
  EXPECT_FALSE(is_there());
}

TEST_F(FileStoreLaunchTest, AddressAndPortAreOnlyForTcp) {
  for (const std::string flag : {"--master-addr=127.0.0.1", "--master-port=0"}) {
    const auto result = launch({"--store", "file:" + path(), flag, "echo", "started"});
    EXPECT_EQ(result.end, ProcessEnd(ExitedWith{2}));
    EXPECT_THAT(result.err, HasSubstr(flag.substr(0, flag.find('=')) +
                                      ": cannot be combined with --store file:"));
    EXPECT_EQ(launch({"--store", "tcp", flag, "echo", "started"}).out, "started\n");
  }
}

TEST(LaunchTest, UnknownStoreKindListsBothForms) {
  EXPECT_THAT(launch({"--store", "etcd", "echo", "x"}).err,
              StartsWith("distrun launch: --store: 'etcd' is neither 'tcp' nor 'file:PATH'\n"));
}

TEST(LaunchTest, HelpAndVersionGoToStdout) {
  for (const auto& arguments : std::vector<std::vector<std::string>>{
           {DISTRUN_PROGRAM, "--help"}, {DISTRUN_PROGRAM, "launch", "--help"}}) {
    const auto result = run_program(arguments);
    EXPECT_EQ(result.end, ProcessEnd(ExitedWith{0}));
    EXPECT_THAT(result.out, AllOf(HasSubstr("Usage: distrun"), HasSubstr("Examples:")));
    EXPECT_EQ(result.err, "");
  }
  EXPECT_THAT(run_program({DISTRUN_PROGRAM, "--version"}).out, MatchesRegex("distrun [0-9.]+\n"));
}

TEST(LaunchTest, HelpCommandEqualsTheFlag) {
  const auto output = [](std::vector<std::string> words) {
    words.insert(words.begin(), DISTRUN_PROGRAM);
    return testing::run_program(words).out;
  };
  EXPECT_EQ(output({"help", "store", "get"}), output({"store", "get", "--help"}));
  EXPECT_EQ(output({"help", "launch"}), output({"launch", "--help"}));
  EXPECT_EQ(output({"help"}), output({"--help"}));
  EXPECT_EQ(output({"help", "help"}), output({"help", "--help"}));
  EXPECT_EQ(output({"help", "launch", "echo", "started"}), "");
}

}  // namespace
}  // namespace distrun
