#include "evidence/stacks/stack_collector.h"

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <thread>

#include <fmt/format.h>

#include "common/deadline.h"
#include "common/os/proc.h"
#include "common/os/process_stat.h"
#include "evidence/python/python_stacks.h"
#include "evidence/stacks/native_stacks.h"
#include "evidence/stacks/python_frames.h"
#include "evidence/stacks/stopped_process.h"

namespace distrun {

namespace {

using Deadline = std::chrono::steady_clock::time_point;

// A thread that does not stop in this time waits in the kernel.
constexpr std::chrono::milliseconds kStopTimeout{500};

std::string thread_name(pid_t pid, pid_t tid) {
  std::string name = proc_file(pid, fmt::format("task/{}/comm", tid).c_str());
  if (name.ends_with('\n')) name.pop_back();
  return name;
}

ProcessStacks read_process(pid_t pid, SymbolNames& names, Deadline deadline) {
  ProcessStacks found;
  found.pid = pid;
  found.name = process_name(pid);
  const auto stat = read_process_stat(pid);
  if (!stat) {
    found.problem = "it has ended";
    return found;
  }
  found.state = stat->state;
  if (stat->state == 'Z') return found;
  if (std::chrono::steady_clock::now() >= deadline) {
    found.problem = "there was no time left to look at it";
    return found;
  }
  const StoppedProcess process(pid, std::min(deadline, deadline_after(kStopTimeout)));
  found.problem = process.problem();
  if (!found.problem.empty()) return found;
  NativeStacks native(process, names);
  const PythonFrames python(process, native.modules(), names);
  for (const StoppedThread& thread : process.threads()) {
    ThreadStack& stack = found.threads.emplace_back();
    stack.tid = thread.tid;
    stack.name = thread_name(pid, thread.tid);
    if (!thread.is_stopped) {
      stack.problem = "it waits in the kernel";
      continue;
    }
    stack.problem = native.read(thread.tid, stack.frames);
    python.put_into(stack.frames, thread.thread_pointer);
  }
  return found;
}

}  // namespace

std::vector<ProcessStacks> StackCollector::collect(const std::vector<pid_t>& pids,
                                                   std::chrono::milliseconds time_limit) {
  const Deadline deadline = deadline_after(time_limit);
  std::vector<ProcessStacks> all;
  // Signals are for the caller's thread.
  sigset_t every, before;
  ::sigfillset(&every);
  ::pthread_sigmask(SIG_SETMASK, &every, &before);
  std::thread reader([&] {
    for (const pid_t pid : pids) all.push_back(read_process(pid, names_, deadline));
  });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  reader.join();
  return all;
}

}  // namespace distrun
