// Real launches that show where their workers are: on SIGUSR1, and after --timeout.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <future>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "cli/test/launch.h"
#include "launcher/control/run_server.h"

namespace distrun {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using testing::Folder;
using ::testing::HasSubstr;
using testing::launch;
using ::testing::Not;
using testing::ProgramOptions;
using testing::run_program;

constexpr const char* kAnswer = "distrun: where the workers are: ";

// Runs `script` in two workers, with the launcher's stderr in its stdout. After both have written
// "here", asks where they are until an answer contains all of `wanted`; then ends the run.
std::string answer_with(const std::vector<std::string>& wanted, const std::string& script) {
  testing::SignalsByDefault signals;
  ProgramOptions options;
  std::size_t seen = 0;  // Answers to SIGUSR1.
  bool asked = false, ended = false;
  const auto count = [](const std::string& text, const std::string& part) {
    std::size_t found = 0;
    for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
    return found;
  };
  options.on_output = [&](const std::string& out, int pid) {
    if (ended || count(out, "here\n") < 2) return;
    const std::string answer = out.substr(std::min(out.rfind(kAnswer), out.size()));
    const auto has = [&](const std::string& text) { return answer.find(text) != answer.npos; };
    if (std::all_of(wanted.begin(), wanted.end(), has)) {
      ended = true;
      ::kill(pid, SIGTERM);
      return;
    }
    const std::size_t answers = count(out, kAnswer);
    if (asked && answers <= seen) return;
    asked = true;
    seen = answers;
    ::kill(pid, SIGUSR1);
  };
  const auto result =
      run_program({"sh", "-c", R"(exec "$0" launch --nproc-per-node 2 sh -c "$1" 2>&1)",
                   DISTRUN_PROGRAM, script},
                  options);
  EXPECT_FALSE(result.timed_out) << "no answer has all that is wanted:\n" << result.out;
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{128 + SIGTERM})) << result.out;
  return result.out;
}

TEST(LaunchStacksTest, NamesThePlaceOfEachRank) {
  const std::string out =
      answer_with({"rank 0 in hung::spin", "rank 1 in hung::load_batch", "    pause (libc"},
                  std::string("[ $RANK = 0 ] && exec ") + HUNG_PROGRAM + " spin; exec " +
                      HUNG_PROGRAM + " pause");
  EXPECT_THAT(out, ContainsRegex("distrun: where the workers are: rank 0 in hung::spin .*; "
                                 "rank 1 in hung::load_batch .*\n"));
  EXPECT_THAT(out, ContainsRegex("  rank 0\n"
                                 "    main .*\n"
                                 "    hung::spin .*\n"));
  EXPECT_THAT(out, ContainsRegex("    hung::load_batch .*\n"
                                 "    pause \\(libc"));
}

TEST(LaunchStacksTest, NamesAStoppedRank) {
  const std::string out = answer_with(
      {"rank 1 stopped (SIGSTOP)"},
      "echo here; [ $RANK = 1 ] && kill -STOP $$; while :; do read line </dev/zero; done");
  EXPECT_THAT(out,
              HasSubstr("distrun: where the workers are: rank 1 stopped (SIGSTOP); rank 0 in "));
}

TEST(LaunchStacksTest, ShowsPythonFunctionsEvenBelowAShell) {
  const Folder folder;
  const std::string script = folder.path() + "/train.py";
  std::ofstream(script) << "import os, time\n"
                           "def load():\n"
                           "    print('here', flush=True)\n"
                           "    time.sleep(1000)\n"
                           "def train():\n"
                           "    print('here', flush=True)\n"
                           "    os.read(os.pipe()[0], 1)\n"
                           "load() if os.environ['RANK'] == '1' else train()\n";
  // Rank 0 may still be printing.
  const std::string out =
      answer_with({"rank 0 in train (" + script + ":7)", "rank 1 in load", "clock_nanosleep"},
                  "python3 " + script + "; exit");
  EXPECT_THAT(out,
              HasSubstr("rank 0 in train (" + script + ":7); rank 1 in load (" + script + ":4)\n"));
  EXPECT_THAT(out, HasSubstr("  <module> (" + script + ":8)\n"));
  EXPECT_THAT(out, Not(HasSubstr("_PyEval")));
}

// Asks from another process while the run continues.
TEST(LaunchStacksTest, StacksAsksTheRun) {
  const testing::SignalsByDefault signals;
  ProgramOptions options;
  testing::ProgramResult by_pid, by_number;
  bool asked = false;
  options.on_output = [&](const std::string& out, int pid) {
    if (asked || out.find("here") == out.npos) return;
    asked = true;
    by_pid = run_program({DISTRUN_PROGRAM, "stacks", std::to_string(pid)});
    by_number = run_program({DISTRUN_PROGRAM, "stacks", "1"});
    ::kill(pid, SIGTERM);
  };
  const auto result = launch({HUNG_PROGRAM, "pause"}, options);
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{128 + SIGTERM}));
  EXPECT_EQ(by_pid.end, ProcessEnd(ExitedWith{0})) << by_pid.err;
  EXPECT_THAT(by_pid.out, ::testing::StartsWith("rank 0 in hung::load_batch"));
  EXPECT_THAT(by_pid.out, HasSubstr("\n  main ("));
  EXPECT_THAT(result.err, Not(HasSubstr(kAnswer))) << "only who asks gets the answer";
  EXPECT_THAT(result.err, HasSubstr("distrun: ended by signal SIGTERM (15)\n"
                                    "  workers at that time: rank 0 in hung::load_batch"));
  EXPECT_EQ(by_number.end, ProcessEnd(ExitedWith{4}));
  EXPECT_THAT(
      by_number.err,
      HasSubstr(
          "distrun stacks: 1 is not the process id of a running distrun launch; your runs:\n"));
  EXPECT_THAT(by_number.err, HasSubstr("  1 worker: " + std::string(HUNG_PROGRAM) + " pause"));
}

// Any process can take the name of a run, and names of functions may contain any bytes.
TEST(LaunchStacksTest, StacksEscapesControlCharacters) {
  boost::asio::io_context io;
  auto server = RunServer::open(io, {own_pid_namespace(), ::getpid(), ::getpid()},
                                [](std::string_view) { return "a\x1b[31mb\n  c\n"; });
  ASSERT_TRUE(server) << server.error().message;
  std::thread loop([&io] { io.run(); });
  const auto result = run_program({DISTRUN_PROGRAM, "stacks", std::to_string(::getpid())});
  boost::asio::post(io, [&server] { server->reset(); });
  loop.join();
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{0})) << result.err;
  EXPECT_EQ(result.out, "a\\x1b[31mb\n  c\n");
}

// The real format, from a group of Gloo: as ProcessGroupNCCL, a thread waits for a byte in the pipe
// and writes the dump.
class FlightRecorderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::string(TORCH_PYTHON).empty()) {
      GTEST_SKIP() << "no Python with torch: configure with DISTRUN_TORCH_PYTHON";
    }
    script_ = folder_.path() + "/train.py";
  }

  void write_script(const std::string& end) const {
    std::ofstream(script_) << R"(import os, sys, threading, time
import torch, torch.distributed as dist
from torch._C._distributed_c10d import _dump_fr_trace
rank = os.environ["RANK"]
pipe = os.environ["TORCH_NCCL_DEBUG_INFO_PIPE_FILE"] + rank + ".pipe"
os.mkfifo(pipe)
asked = os.open(pipe, os.O_RDWR)
def dump():
    with open(os.environ["TORCH_FR_DUMP_TEMP_FILE"] + rank, "wb") as file:
        file.write(_dump_fr_trace())
def answer():
    store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False)
    while os.read(asked, 128):
        store.check(["dump"])
        dump()
threading.Thread(target=answer, daemon=True).start()
dist.init_process_group("gloo")
for _ in range(3):
    dist.all_reduce(torch.ones(5))
)" << end;
  }

  const Folder folder_;
  std::string script_;
};

TEST_F(FlightRecorderTest, StacksSayWhichRankHasNotEnteredACollective) {
  write_script(
      "print('here', flush=True)\n"
      "time.sleep(1000) if rank == '1' else dist.all_reduce(torch.ones(5))\n");
  ProgramOptions options;
  std::string answer;
  options.on_output = [&](const std::string& out, int pid) {
    if (!answer.empty() || std::count(out.begin(), out.end(), '\n') < 2) return;
    const std::string expected =
        "collectives: rank 1 has not entered all_reduce, number 4 of group 0 (Float [5])";
    // Rank 0 may not have entered it yet.
    for (int i = 0; i < 60 && answer.find(expected) == answer.npos; ++i) {
      answer = run_program({DISTRUN_PROGRAM, "stacks", std::to_string(pid)}).out;
    }
    EXPECT_THAT(answer, HasSubstr(expected + "; rank 0 waits in it\n"));
    ::kill(pid, SIGTERM);
  };
  launch({"--nproc-per-node", "2", TORCH_PYTHON, script_}, options);
  EXPECT_FALSE(answer.empty());
}

// The watchdog of one rank makes all ranks write their dumps, and then aborts its rank.
TEST_F(FlightRecorderTest, IsReadBeforeTheOthersAreEndedIfAWatchdogEndsAWorker) {
  write_script(
      R"(store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False)
dist.barrier()
if rank == "1":
    store.wait(["dump"])
    dump()
    store.set("dumped", "1")
    time.sleep(1000)
dist.all_reduce(torch.ones(5), async_op=True)
time.sleep(2.5)  # The timeout of the collective.
dump()
store.set("dump", "1")
store.wait(["dumped"])
os.abort()
)");
  const auto result = launch({"--nproc-per-node", "2", TORCH_PYTHON, script_});
  EXPECT_THAT(
      result.err,
      AllOf(HasSubstr("distrun: collectives: rank 1 has not entered all_reduce, number 5 of "
                      "group 0 (Float [5]); rank 0 waits in it\n"),
            HasSubstr("distrun: where the workers are: rank 1 in <module>")));
}

// A recorder without torch, which is asked in odd moments. With "answer", it answers; with
// "watchdog", it writes unasked, and rank 0 aborts.
class FakeRecorderTest : public ::testing::Test {
 protected:
  FakeRecorderTest() {
    script_ = folder_.path() + "/train.py";
    std::ofstream(script_) << R"(import os, pickle, signal, sys, time
rank = os.environ["RANK"]
pipe = os.environ["TORCH_NCCL_DEBUG_INFO_PIPE_FILE"] + rank + ".pipe"
os.mkfifo(pipe)
asked = os.open(pipe, os.O_RDWR)
def ended(number, frame):
    print("ended by", signal.Signals(number).name, flush=True)
    sys.exit(3)
signal.signal(signal.SIGTERM, ended)
print("here", flush=True)
def dump():
    entry = {"profiling_name": "nccl:all_reduce", "process_group": ("0", "default_pg"),
             "collective_seq_id": 1, "time_created_ns": 1}
    entries = [] if rank == "1" else [entry]
    with open(os.environ["TORCH_FR_DUMP_TEMP_FILE"] + rank, "wb") as file:
        file.write(pickle.dumps({"entries": entries}, 2))
if sys.argv[1] == "watchdog":
    dump()
    other_has_written = sys.argv[0] + ".written"
    if rank == "1":
        open(other_has_written, "w").close()
    else:
        while not os.path.exists(other_has_written):
            time.sleep(0.01)
        os.abort()
while os.read(asked, 1):
    print("asked", flush=True)
    if sys.argv[1] == "answer":
        dump()
    elif sys.argv[1] == "garbage":
        with open(os.environ["TORCH_FR_DUMP_TEMP_FILE"] + rank, "wb") as file:
            file.write(b"]q\0" + b"K\1a" * 100000)
)";
  }

  testing::ProgramResult run(const std::string& what, std::vector<std::string> flags,
                             const ProgramOptions& options = {}) const {
    flags.insert(flags.end(), {"python3", script_, what});
    return launch(flags, options);
  }

  const Folder folder_;
  std::string script_;
};

TEST_F(FakeRecorderTest, TimeoutNamesARankThatHasEnteredNothing) {
  const auto result = run("answer", {"--nproc-per-node", "2", "--timeout", "1"});
  EXPECT_THAT(result.err, HasSubstr("distrun: collectives: rank 1 has not entered all_reduce, "
                                    "number 1 of group 0; rank 0 waits in it\n"));
}

TEST_F(FakeRecorderTest, AWorkerThatDoesNotAnswerHasItsTimeToEnd) {
  const auto result = run("silence", {"--timeout", "1", "--shutdown-timeout", "2"});
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{124}));
  EXPECT_THAT(result.out, HasSubstr("ended by SIGTERM\n"));
  EXPECT_THAT(result.err, AllOf(Not(HasSubstr("collectives:")), Not(HasSubstr("SIGKILL"))));
}

TEST_F(FakeRecorderTest, AnAnswerThatIsNotADumpIsLeftOut) {
  const auto result = run("garbage", {"--timeout", "1"});
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{124}));
  EXPECT_THAT(result.err, Not(HasSubstr("collectives:")));
}

// Ctrl-C must not wait for the answer.
TEST_F(FakeRecorderTest, ASignalEndsTheRunWhileAWorkerIsAsked) {
  const testing::SignalsByDefault signals;
  ProgramOptions options;
  bool asked = false, ended = false;
  options.on_output = [&](const std::string& out, int pid) {
    if (!asked && out.find("here") != out.npos) {
      asked = true;
      ::kill(pid, SIGUSR1);
    }
    if (!ended && out.find("asked") != out.npos) {
      ended = true;
      ::kill(pid, SIGTERM);
    }
  };
  const auto result = run("silence", {}, options);
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{128 + SIGTERM}));
  EXPECT_THAT(result.out, HasSubstr("ended by SIGTERM\n"));
  EXPECT_THAT(result.err, HasSubstr("distrun: where the workers are: "));
}

// The recorders of a node know only its own ranks. A node prints what they know only if the run
// ends because of the node itself.
TEST_F(FakeRecorderTest, Node0NamesARankOfAnotherNode) {
  const std::string address = testing::own_address();
  const auto node = [&](int number) {
    return std::async(std::launch::async,
                      [=, this] { return run("answer", testing::flags_of_node(number, address)); });
  };
  auto first = node(0), second = node(1);
  EXPECT_THAT(first.get().err,
              AllOf(HasSubstr("distrun: collectives: rank 0 waits in all_reduce, number 1 of "
                              "group 0\n"),
                    HasSubstr("distrun: collectives: rank 1 has not entered all_reduce, number 1 "
                              "of group 0; rank 0 waits in it\n"),
                    HasSubstr("\n  collectives: rank 1 has not entered all_reduce, number 1 of "
                              "group 0; rank 0 waits in it\n")));
  EXPECT_THAT(second.get().err, Not(HasSubstr("collectives:")));
}

TEST_F(FakeRecorderTest, Node0NamesARankOfAnotherNodeAfterAWatchdogHasEndedAWorker) {
  const std::string address = testing::own_address();
  const auto node = [&](int number) {
    return std::async(std::launch::async, [=, this] {
      return run("watchdog", {"--nnodes", "2", "--node-rank", std::to_string(number),
                              "--master-addr", address});
    });
  };
  auto first = node(0), second = node(1);
  EXPECT_THAT(first.get().err,
              HasSubstr("\n  collectives: rank 1 has not entered all_reduce, number 1 of group 0; "
                        "rank 0 waits in it\n"));
  EXPECT_NE(second.get().end, ProcessEnd(ExitedWith{0}));
}

TEST_F(FakeRecorderTest, LogFoldersKeepTheDumpsAndNoPipes) {
  run("answer", {"--timeout", "1", "--log-dir", folder_.path() + "/logs"});
  std::vector<std::string> names;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(folder_.path() + "/logs")) {
    names.push_back(entry.path().filename());
  }
  EXPECT_THAT(names, AllOf(::testing::Contains("nccl_trace_rank_0"),
                           Not(::testing::Contains("nccl_trace_rank_0.pipe"))));
}

TEST(LaunchStacksTest, TimeoutShowsWhereTheWorkersAreBeforeItStopsThem) {
  const Folder folder;
  const std::string events = folder.path() + "/events";
  const auto result =
      launch({"--timeout", "0.5", "--events", events, "--nproc-per-node", "2", "sleep", "1000"});
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{124}));
  EXPECT_THAT(result.err, ContainsRegex("^distrun: where the workers are: ranks 0, 1 in .*\n"));
  EXPECT_THAT(result.err, ContainsRegex("\ndistrun: timed out after 0.5 s \\(--timeout\\)\n"
                                        "  workers at that time: ranks 0, 1 in .*\n"
                                        "  distrun then stopped ranks 0, 1 \\(signal SIGTERM"));
  std::ifstream file(events);
  std::vector<std::string> names;
  std::string where;
  for (std::string line; std::getline(file, line);) {
    const auto event = nlohmann::json::parse(line);
    names.push_back(event["event"]);
    if (names.back() == "stacks_read") where = event["where"];
  }
  EXPECT_THAT(names, ::testing::ElementsAre("run_started", "attempt_started", "worker_started",
                                            "worker_started", "stacks_read", "worker_ended",
                                            "worker_ended", "run_ended"));
  EXPECT_THAT(where, HasSubstr("ranks 0, 1 in "));
}

}  // namespace
}  // namespace distrun
