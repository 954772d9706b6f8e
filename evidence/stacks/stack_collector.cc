#include "evidence/stacks/stack_collector.h"

#include <algorithm>
#include <condition_variable>
#include <csignal>
#include <cstddef>
#include <exception>
#include <filesystem>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

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

// The time that a process may take beyond the limit: reading a file may block in the kernel.
constexpr std::chrono::seconds kOvertime{2};

std::string thread_name(pid_t pid, pid_t tid) {
  std::string name = proc_file(pid, fmt::format("task/{}/comm", tid).c_str());
  if (name.ends_with('\n')) name.pop_back();
  return name;
}

bool has_other_threads(pid_t pid) {
  std::error_code error;
  const std::filesystem::path folder = fmt::format("/proc/{}/task", pid);
  std::filesystem::directory_iterator threads(folder, error), end;
  return !error && threads != end && ++threads != end;
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
  if (stat->state == 'Z' && !has_other_threads(pid)) return found;
  if (std::chrono::steady_clock::now() >= deadline) {
    found.problem = "there was no time left to look at it";
    return found;
  }
  const StoppedProcess process(pid, deadline);
  found.problem = process.problem();
  if (!found.problem.empty()) return found;
  NativeStacks native(process, names);
  const PythonFrames python(process, native.modules(), names);
  for (const StoppedThread& thread : process.threads()) {
    ThreadStack& stack = found.threads.emplace_back();
    stack.tid = thread.tid;
    stack.name = thread_name(pid, thread.tid);
    if (!thread.is_stopped) {
      stack.problem = thread.is_blocked ? "it waits in the kernel" : "it did not stop in time";
      continue;
    }
    stack.problem = native.read(thread.tid, stack.frames, deadline);
    python.put_into(stack.frames, thread.thread_pointer);
  }
  return found;
}

// Shared by readers and caller, because a reader may outlive the call.
struct Look {
  std::shared_ptr<SymbolNames> names;
  Deadline deadline;
  std::mutex mutex;
  std::condition_variable changed;
  int running = 0;
  std::vector<std::optional<ProcessStacks>> found;
};

void read_into(const std::shared_ptr<Look>& look, std::size_t index, pid_t pid) {
  std::optional<ProcessStacks> stacks;
  try {
    stacks = read_process(pid, *look->names, look->deadline);
  } catch (const std::exception& error) {  // Failing to read stacks must not end a run.
    stacks = ProcessStacks{.pid = pid, .problem = error.what()};
  }
  const std::lock_guard lock(look->mutex);
  look->found[index] = std::move(stacks);
  --look->running;
  look->changed.notify_all();
}

}  // namespace

StackCollector::StackCollector() : names_(std::make_shared<SymbolNames>()) {}

std::vector<ProcessStacks> StackCollector::collect(const std::vector<pid_t>& pids,
                                                   std::chrono::milliseconds time_limit) {
  const auto look = std::make_shared<Look>();
  look->names = names_;
  look->deadline = deadline_after(time_limit);
  look->found.resize(pids.size());
  const Deadline end = postponed(look->deadline, kOvertime);
  const int cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  // Signals must reach the caller's thread.
  sigset_t every, before;
  ::sigfillset(&every);
  ::pthread_sigmask(SIG_SETMASK, &every, &before);
  std::unique_lock lock(look->mutex);
  for (std::size_t i = 0; i < pids.size(); ++i) {
    if (!look->changed.wait_until(lock, end, [&] { return look->running < cores; })) break;
    try {
      std::thread(read_into, look, i, pids[i]).detach();
      ++look->running;
    } catch (const std::system_error&) {  // No more threads can be created.
      break;
    }
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  look->changed.wait_until(lock, end, [&] { return look->running == 0; });
  const bool all_have_ended = look->running == 0;
  std::vector<ProcessStacks> all;
  for (std::size_t i = 0; i < pids.size(); ++i) {
    all.push_back(look->found[i].value_or(
        ProcessStacks{.pid = pids[i], .problem = "it could not be looked at in time"}));
  }
  lock.unlock();
  if (all_have_ended) {
    names_->close_files();
  } else {
    names_ = std::make_shared<SymbolNames>();  // A reader still uses the other one.
  }
  return all;
}

std::vector<std::vector<ProcessStacks>> StackCollector::collect_groups(
    const std::vector<std::vector<pid_t>>& groups, std::chrono::milliseconds time_limit) {
  std::vector<pid_t> pids;
  for (const auto& group : groups) pids.insert(pids.end(), group.begin(), group.end());
  auto all = collect(pids, time_limit);
  std::vector<std::vector<ProcessStacks>> found;
  auto next = std::make_move_iterator(all.begin());
  for (const auto& group : groups) {
    const auto end = next + static_cast<std::ptrdiff_t>(group.size());
    found.emplace_back(next, end);
    next = end;
  }
  return found;
}

}  // namespace distrun
