#include "evidence/stacks/stopped_process.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <filesystem>
#include <system_error>
#include <thread>

#include <fmt/format.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>

#include "common/deadline.h"
#include "common/os/proc.h"
#include "common/os/process_stat.h"
#include "distrun/result.h"

namespace distrun {

namespace {

// How long a thread may take to leave the kernel.
constexpr std::chrono::milliseconds kBlockedMax{500};

// A process that keeps starting threads is never complete.
constexpr int kRounds = 8;

std::vector<pid_t> threads_of(pid_t pid) {
  std::vector<pid_t> threads;
  std::error_code error;
  const std::filesystem::path folder = fmt::format("/proc/{}/task", pid);
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename();
    pid_t tid = -1;
    std::from_chars(name.data(), name.data() + name.size(), tid);
    if (tid > 0) threads.push_back(tid);
  }
  std::sort(threads.begin(), threads.end());
  std::stable_partition(threads.begin(), threads.end(), [pid](pid_t tid) { return tid == pid; });
  return threads;
}

// A thread blocked in the kernel (D) would stop only when the kernel resumes it; others have ended.
bool can_stop(pid_t pid, pid_t tid) {
  const auto stat =
      parse_process_stat(proc_file(pid, fmt::format("task/{}/stat", tid).c_str()), "", {});
  return stat && stat->state != 'D' && stat->state != 'Z' && stat->state != 'X';
}

std::uint64_t thread_pointer(pid_t tid) {
#ifdef __x86_64__
  user_regs_struct registers{};
  if (::ptrace(PTRACE_GETREGS, tid, nullptr, &registers) == 0) return registers.fs_base;
#else
  static_cast<void>(tid);
#endif
  return 0;
}

std::string why_not(int error) {
  if (error == EPERM) {
    return "ptrace is not permitted here, or a debugger is attached";
  }
  return Error::from_errno("ptrace", error).message;
}

}  // namespace

StoppedProcess::StoppedProcess(pid_t pid, std::chrono::steady_clock::time_point deadline)
    : pid_(pid) {
  for (int round = 0; round < kRounds && seize_new_threads(); ++round) wait_for_stops(deadline);
  wait_for_stops(deadline);
}

// False if there were none.
bool StoppedProcess::seize_new_threads() {
  bool found = false;
  for (const pid_t tid : threads_of(pid_)) {
    const auto same = [tid](const StoppedThread& known) { return known.tid == tid; };
    if (std::any_of(threads_.begin(), threads_.end(), same)) continue;
    threads_.push_back({.tid = tid});
    if (!can_stop(pid_, tid)) {
      threads_.back().is_blocked = true;
      continue;
    }
    found = true;
    if (::ptrace(PTRACE_SEIZE, tid, nullptr, nullptr) != 0) {
      if (errno != ESRCH && problem_.empty()) problem_ = why_not(errno);
      if (errno != ESRCH) return false;
      continue;
    }
    threads_.back().is_seized = true;
    ::ptrace(PTRACE_INTERRUPT, tid, nullptr, nullptr);
  }
  return found;
}

void StoppedProcess::wait_for_stops(std::chrono::steady_clock::time_point deadline) {
  const auto enough = deadline_after(kBlockedMax);
  for (StoppedThread& thread : threads_) {
    while (thread.is_seized && !thread.is_stopped) {
      siginfo_t info{};
      // Not WEXITED: the parent must reap it.
      const int waited =
          ::waitid(P_PID, static_cast<id_t>(thread.tid), &info, WSTOPPED | WNOHANG | __WALL);
      if (waited != 0 && errno != EINTR) break;  // Ended, or never seized.
      if (waited == 0 && info.si_pid == thread.tid && info.si_code == CLD_TRAPPED) {
        thread.is_stopped = true;
        const bool is_event = info.si_status >> 8 != 0;
        if (!is_event) thread.signal = info.si_status;
        thread.thread_pointer = thread_pointer(thread.tid);
        break;
      }
      const auto now = std::chrono::steady_clock::now();
      thread.is_blocked = now >= std::min(deadline, enough) && !can_stop(pid_, thread.tid);
      if (now >= deadline || thread.is_blocked) break;
      // No call waits for a stop with a timeout.
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  }
}

// Threads that did not stop in time may have stopped since.
StoppedProcess::~StoppedProcess() {
  detach();
  wait_for_stops(std::chrono::steady_clock::now());
  detach();
}

void StoppedProcess::detach() {
  for (StoppedThread& thread : threads_) {
    if (!thread.is_seized || !thread.is_stopped) continue;
    ::ptrace(PTRACE_DETACH, thread.tid, nullptr, static_cast<long>(thread.signal));
    thread.is_seized = false;
  }
}

bool StoppedProcess::read(std::uint64_t address, void* into, std::size_t size) const {
  iovec local{into, size};
  iovec remote{reinterpret_cast<void*>(address), size};  // NOLINT(performance-no-int-to-ptr)
  return ::process_vm_readv(pid_, &local, 1, &remote, 1, 0) == static_cast<ssize_t>(size);
}

}  // namespace distrun
