#include "evidence/stacks/stack_collector.h"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/os/process_stat.h"
#include "common/test/folder.h"
#include "evidence/stacks/stopped_process.h"

extern char** environ;

namespace distrun {
namespace {

using namespace std::chrono_literals;
using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::Not;

// A program that has reported that it hangs.
class Process {
 public:
  explicit Process(std::vector<std::string> arguments) {
    int in[2], out[2];
    EXPECT_EQ(::pipe(in), 0);
    EXPECT_EQ(::pipe(out), 0);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, in[0], 0);
    ::posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    for (const int end : {in[0], in[1], out[0], out[1]}) {
      ::posix_spawn_file_actions_addclose(&actions, end);
    }
    std::vector<char*> words;
    for (std::string& word : arguments) words.push_back(word.data());
    words.push_back(nullptr);
    EXPECT_EQ(::posix_spawnp(&pid_, words.front(), &actions, nullptr, words.data(), environ), 0);
    ::posix_spawn_file_actions_destroy(&actions);
    ::close(in[0]);
    ::close(out[1]);
    in_ = in[1];
    out_ = ::fdopen(out[0], "r");
    is_here_ = line() == "here";
  }
  ~Process() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
    ::close(in_);
    std::fclose(out_);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }
  bool is_here() const { return is_here_; }
  void go_on() const { EXPECT_EQ(::write(in_, "\n", 1), 1); }

  std::string line() {
    std::string text;
    for (int letter = std::fgetc(out_); letter != EOF && letter != '\n';
         letter = std::fgetc(out_)) {
      text += static_cast<char>(letter);
    }
    return text;
  }

  int wait() {
    int status = -1;
    EXPECT_EQ(::waitpid(std::exchange(pid_, -1), &status, 0) > 0, true);
    return status;
  }

 private:
  pid_t pid_ = -1;
  int in_ = -1;
  std::FILE* out_ = nullptr;
  bool is_here_ = false;
};

ProcessStacks look_at(pid_t pid, std::chrono::milliseconds time_limit = 20s) {
  StackCollector collector;
  auto all = collector.collect({pid}, time_limit);
  EXPECT_EQ(all.size(), 1U);
  return std::move(all.front());
}

std::vector<std::string> functions(const ThreadStack& thread) {
  std::vector<std::string> names;
  for (const Frame& frame : thread.frames) names.push_back(frame.function);
  return names;
}

void expect_state(pid_t pid, char state) {
  const auto is_there = [&] {
    const auto stat = read_process_stat(pid);
    return stat && stat->state == state;
  };
  const auto deadline = std::chrono::steady_clock::now() + 30s;
  while (!is_there() && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  EXPECT_TRUE(is_there()) << state;
}

TEST(StackCollectorTest, NamesTheFunctionsOfAProcess) {
  Process program({HUNG_PROGRAM, "pause"});
  expect_state(program.pid(), 'S');
  const ProcessStacks stacks = look_at(program.pid());
  EXPECT_EQ(stacks.problem, "");
  EXPECT_EQ(stacks.pid, program.pid());
  EXPECT_EQ(stacks.name, "hung_program");
  EXPECT_EQ(stacks.state, 'S');
  ASSERT_EQ(stacks.threads.size(), 1U);
  const auto names = functions(stacks.threads.front());
  EXPECT_THAT(names, IsSupersetOf({"main", "hung::load_batch"}));
  EXPECT_LT(std::find(names.begin(), names.end(), "main"),
            std::find(names.begin(), names.end(), "hung::load_batch"));
  EXPECT_THAT(stacks.threads.front().frames.front().module, HasSubstr("/"));
}

TEST(StackCollectorTest, InlinedFunctionHasTheLineOfItsCall) {
  Process program({HUNG_PROGRAM, "lock"});
  expect_state(program.pid(), 'S');
  const ProcessStacks stacks = look_at(program.pid());
  ASSERT_EQ(stacks.threads.size(), 1U);
  const auto& frames = stacks.threads.front().frames;
  const auto taking = std::find_if(frames.begin(), frames.end(), [](const Frame& frame) {
    return frame.function == "hung::take_lock";
  });
  ASSERT_NE(taking, frames.end());
  std::ifstream source(taking->source);
  std::string line;
  for (int i = 0; i < taking->line; ++i) std::getline(source, line);
  EXPECT_EQ(line, "  lock.lock();") << taking->source << ':' << taking->line;
}

TEST(StackCollectorTest, ReadsABusyProcess) {
  Process program({HUNG_PROGRAM, "spin"});
  const ProcessStacks stacks = look_at(program.pid());
  ASSERT_EQ(stacks.threads.size(), 1U);
  EXPECT_THAT(functions(stacks.threads.front()), Contains("hung::spin"));
}

TEST(StackCollectorTest, ReadsEveryThreadAndTheMainThreadFirst) {
  Process program({HUNG_PROGRAM, "thread"});
  expect_state(program.pid(), 'S');
  const ProcessStacks stacks = look_at(program.pid());
  ASSERT_EQ(stacks.threads.size(), 2U);
  EXPECT_EQ(stacks.threads[0].tid, program.pid());
  EXPECT_THAT(functions(stacks.threads[0]), Contains("main"));
  EXPECT_THAT(functions(stacks.threads[1]), Contains("hung::in_a_thread"));
}

TEST(StackCollectorTest, LeavesAStoppedProcessStopped) {
  Process program({HUNG_PROGRAM, "pause"});
  ASSERT_EQ(::kill(program.pid(), SIGSTOP), 0);
  siginfo_t stopped{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(program.pid()), &stopped, WSTOPPED), 0);
  const ProcessStacks stacks = look_at(program.pid());
  EXPECT_EQ(stacks.state, 'T');
  ASSERT_EQ(stacks.threads.size(), 1U);
  EXPECT_THAT(functions(stacks.threads.front()), Contains("main"));
  expect_state(program.pid(), 'T');  // It is woken up, to stop again.
}

TEST(StackCollectorTest, BlockedSystemCallsContinueAndSignalsArrive) {
  constexpr int kSignals = 300, kLooks = 30;
  Process program({HUNG_PROGRAM, "read"});
  std::atomic<bool> all_sent{false};
  std::thread sender([&] {
    for (int i = 0; i < kSignals; ++i) {
      while (::sigqueue(program.pid(), SIGRTMIN, {}) != 0) std::this_thread::yield();
      std::this_thread::yield();
    }
    all_sent = true;
  });
  for (int i = 0; i < kLooks || !all_sent; ++i) {
    EXPECT_EQ(look_at(program.pid()).problem, "");
  }
  sender.join();
  program.go_on();
  EXPECT_EQ(program.line(), std::to_string(kSignals));
  EXPECT_EQ(program.wait(), 0);
}

TEST(StackCollectorTest, DoesNotReapChildren) {
  Process program({HUNG_PROGRAM, "read"});
  program.go_on();
  while (look_at(program.pid()).state != 'Z') {
  }
  EXPECT_EQ(program.line(), "0");
  EXPECT_EQ(program.wait(), 0);
}

TEST(StackCollectorTest, SurvivesProcessesAndThreadsThatEnd) {
  Process program({HUNG_PROGRAM, "churn"});
  StackCollector collector;
  for (int i = 0; i < 300; ++i) {
    const auto sessions = processes_by_session();
    const auto session = sessions.find(::getsid(0));
    const auto pids = session == sessions.end() ? std::vector<pid_t>{} : session->second;
    std::vector<pid_t> looked_at = {program.pid()};
    for (const pid_t pid : pids) {
      const auto stat = read_process_stat(pid);
      if (stat && stat->parent == program.pid()) looked_at.push_back(pid);
    }
    const auto all = collector.collect(looked_at, 20s);
    EXPECT_EQ(all.size(), looked_at.size());
    for (const ProcessStacks& one : all) {
      EXPECT_THAT(one.problem, AnyOf("", "it has ended", HasSubstr("ptrace"))) << "no exception's";
    }
  }
}

TEST(StackCollectorTest, NamesFunctionsOfARebuiltProgram) {
  const testing::Folder folder;
  const std::string path = folder.path() + "/program";
  StackCollector collector;
  const auto names = [&](const char* program, std::vector<std::string> arguments) {
    std::filesystem::remove(path);
    std::filesystem::copy_file(program, path);
    arguments.insert(arguments.begin(), path);
    const Process process(arguments);
    EXPECT_TRUE(process.is_here());
    return functions(collector.collect({process.pid()}, 20s).at(0).threads.at(0));
  };
  EXPECT_THAT(names(HUNG_PROGRAM, {"spin"}), Contains("hung::spin"));
  EXPECT_THAT(names("/bin/sh", {"-c", "echo here; read line"}), Not(Contains("hung::spin")));
  EXPECT_THAT(names(HUNG_PROGRAM, {"spin"}), Contains("hung::spin"));
}

TEST(StackCollectorTest, ReportsThatAProcessHasEnded) {
  Process program({HUNG_PROGRAM, "read"});
  program.go_on();
  const pid_t pid = program.pid();
  program.wait();
  EXPECT_EQ(look_at(pid).problem, "it has ended");
}

TEST(StackCollectorTest, ReportsThatTimeIsUp) {
  Process program({HUNG_PROGRAM, "pause"});
  EXPECT_EQ(look_at(program.pid(), 0ms).problem, "there was no time left to look at it");
  EXPECT_TRUE(look_at(program.pid()).problem.empty());
}

TEST(StackCollectorTest, ReportsThatAnotherDebuggerIsAttached) {
  Process program({HUNG_PROGRAM, "pause"});
  // Another thread of this process holds it, like a debugger.
  const StoppedProcess held(program.pid(), std::chrono::steady_clock::now() + 20s);
  ASSERT_EQ(held.problem(), "");
  EXPECT_EQ(look_at(program.pid()).problem,
            "ptrace is not permitted here, or a debugger is attached");
}

class PythonStackTest : public ::testing::TestWithParam<const char*> {};

TEST_P(PythonStackTest, PythonFramesReplaceTheInterpreters) {
  const std::string python = GetParam();
  if (std::system((python + " -c '' 2>/dev/null").c_str()) != 0) {
    GTEST_SKIP() << "there is no " << python << " in PATH";
  }
  Process program({python, "-c",
                   "import threading, time\n"
                   "def in_a_thread():\n"
                   "    threading.Event().wait()\n"
                   "class Pärt:\n"
                   "    def load(self):\n"
                   "        print('here', flush=True)\n"
                   "        time.sleep(1000)\n"
                   "threading.Thread(target=in_a_thread, daemon=True).start()\n"
                   "\n"
                   "Pärt().load()\n"});
  ASSERT_TRUE(program.is_here());
  expect_state(program.pid(), 'S');
  const ProcessStacks stacks = look_at(program.pid());
  EXPECT_EQ(stacks.problem, "");
  ASSERT_EQ(stacks.threads.size(), 2U);

  const auto& main = stacks.threads[0].frames;
  ASSERT_GE(main.size(), 3U);
  EXPECT_EQ(main[0], (Frame{.function = "<module>", .source = "<string>", .line = 10}));
  // Python 3.10 has no qualified names.
  EXPECT_THAT(main[1].function, AnyOf("Pärt.load", "load"));
  EXPECT_EQ(main[1].line, 7);
  EXPECT_THAT(functions(stacks.threads[0]), Not(Contains("_PyEval_EvalFrameDefault")));
  EXPECT_THAT(main.back().module, HasSubstr("libc"));

  EXPECT_THAT(stacks.threads[1].frames,
              Contains(Frame{.function = "in_a_thread", .source = "<string>", .line = 3}));
}

INSTANTIATE_TEST_SUITE_P(Versions, PythonStackTest,
                         ::testing::Values("python3", "python3.10", "python3.11", "python3.12",
                                           "python3.13", "python3.14"),
                         [](const auto& version) {
                           std::string name = version.param;
                           std::replace(name.begin(), name.end(), '.', '_');
                           return name;
                         });

}  // namespace
}  // namespace distrun
