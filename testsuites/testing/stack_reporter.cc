#include "testsuites/testing/stack_reporter.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <ctime>
#include <mutex>
#include <sstream>
#include <thread>

#include <semaphore.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/crash/backtrace.h"
#include "common/text/demangle.h"
#include "testsuites/harness/protocol/where_signal.h"
#include "testsuites/testing/collectives.h"
#include "testsuites/testing/operation_times.h"

namespace distrun {

namespace {

// Filled by the asked thread's signal handler.
Backtrace stack;
sem_t stack_is_taken;

// Does not return: the signal would end a sleep() or poll() of the thread, and the test would
// continue while other ranks are asked.
[[noreturn]] void take_stack(int) {
  stack.capture();
  ::sem_post(&stack_is_taken);
  for (;;) ::pause();
}

int stack_signal() { return where_signal() + 1; }

// Not interrupted: the caller blocks all signals.
bool wait_for_stack() {
  using std::chrono::seconds;
  const std::chrono::nanoseconds until =
      std::chrono::system_clock::now().time_since_epoch() + std::chrono::milliseconds(1000);
  const timespec time{until / seconds(1), (until % seconds(1)).count()};
  return ::sem_timedwait(&stack_is_taken, &time) == 0;
}

// Of the thread that has got stack_signal(). Empty if it does not take signals.
std::string answered_stack() {
  if (!wait_for_stack()) return "";
  static Backtrace::Text text;
  text.clear();
  stack.find_names();
  stack.begin_behind([](std::string_view name) { return name.find("take_stack") != name.npos; });
  stack.print(text);
  return demangled_backtrace(text.view());
}

std::string stack_of(pthread_t thread) {
  ::pthread_kill(thread, stack_signal());
  std::string lines = answered_stack();
  if (lines.empty()) return "its thread does not take signals\n";
  // Frames above the test are the same for all tests.
  const std::size_t test = lines.find("::TestBody()");
  const std::size_t caller = lines.find("testing::internal::HandleExceptionsInMethodIfSupported");
  if (test != lines.npos) {
    lines.erase(std::min(lines.find('\n', test), lines.size() - 1) + 1);
  } else if (caller != lines.npos) {  // In SetUp() or TearDown().
    lines.erase(lines.rfind('\n', caller) + 1);
  }
  return lines;
}

std::mutex one_at_a_time;

// "#1 train::load()+0x1c (/build/worker+0x12ab)": "train::load()", or "worker" without a name.
std::string function_in(const std::string& line) {
  const auto begin = line.find(' '), file = line.rfind(" (");
  const auto end = line.rfind("+0x", file), offset = line.rfind("+0x");
  if (begin == line.npos || file == line.npos || begin == file) return "";
  if (end != line.npos) return line.substr(begin + 1, end - begin - 1);
  const std::string module = line.substr(file + 2, offset - file - 2);
  return module.substr(module.rfind('/') + 1);
}

}  // namespace

PlaceTold place_of(pthread_t thread) {
  const std::lock_guard lock(one_at_a_time);
  // First, because the thread may stop while it holds a lock that these need.
  const std::string trace = collectives_trace();
  OperationTimes times = operation_times();
  const std::string stack = stack_of(thread);
  PlaceTold place{last_collective_in(trace) + "\n" + stack, collectives_in(trace)};
  place.collectives.times = std::move(times);
  return place;
}

std::string function_of(pid_t thread) {
  const std::lock_guard lock(one_at_a_time);
  ::syscall(SYS_tgkill, ::getpid(), thread, stack_signal());
  std::istringstream lines(answered_stack());
  for (std::string line; std::getline(lines, line);) {
    const bool is_system =
        line.find("/libc.so") != line.npos || line.find("/libstdc++.so") != line.npos;
    if (!is_system) return function_in(line);
  }
  return "";
}

StackReporter::StackReporter(ResultChannel& channel) {
  Backtrace::prepare();
  ::sem_init(&stack_is_taken, 0, 0);
  ::signal(stack_signal(), take_stack);
  sigset_t asked, all, before;
  ::sigemptyset(&asked);
  for (const int question : {where_signal(), collective_signal()}) ::sigaddset(&asked, question);
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);  // The new thread leaves signals to the test.
  std::thread([&channel, asked, main_thread = ::pthread_self()] {
    for (int signal = 0; ::sigwait(&asked, &signal) == 0;) {
      if (signal == collective_signal()) {
        channel.send(CollectiveTold{last_collective_in(collectives_trace())});
      } else {
        channel.send(place_of(main_thread));
      }
    }
  }).detach();
  for (const int question : {where_signal(), collective_signal()}) ::sigaddset(&before, question);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace distrun
