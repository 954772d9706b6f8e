// StoppedProcess stops the threads of another process while it exists, so that their stacks can be
// read. No signal is lost, and most blocked system calls continue. Those that signal(7) lists
// return EINTR, as after SIGSTOP and SIGCONT: epoll_wait(2), semtimedop(2), sigtimedwait(2), and
// calls on sockets with a timeout.
//
//     StoppedProcess process(4711, deadline);
//     for (const StoppedThread& thread : process.threads()) …
//     process.read(address, buffer, size);
//
// ptrace(2) is allowed for descendants of this process, unless a security policy forbids it or a
// debugger is attached; problem() then says so.
//
// Use it in its own thread, and end that thread afterwards, as StackCollector does: only that
// releases threads that could not be stopped in time, because they are blocked in the kernel.
// Meanwhile no code of this process may wait for stops of children.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <sys/types.h>

namespace distrun {

struct StoppedThread {
  pid_t tid = -1;
  bool is_seized = false;
  bool is_stopped = false;
  bool is_blocked = false;           // In the kernel (D), or ended: it could not stop.
  int signal = 0;                    // A signal that arrived meanwhile; delivered afterwards.
  std::uint64_t thread_pointer = 0;  // Its pthread_t.
};

class StoppedProcess {
 public:
  // Blocks until all threads have stopped, or until `deadline`. Does not wait that long for a
  // thread that is blocked in the kernel; others stop as soon as they get a processor.
  StoppedProcess(pid_t pid, std::chrono::steady_clock::time_point deadline);
  ~StoppedProcess();
  StoppedProcess(const StoppedProcess&) = delete;
  StoppedProcess& operator=(const StoppedProcess&) = delete;

  pid_t pid() const { return pid_; }
  // The main thread first.
  const std::vector<StoppedThread>& threads() const { return threads_; }
  // Why no thread was stopped; may be empty.
  const std::string& problem() const { return problem_; }

  bool read(std::uint64_t address, void* into, std::size_t size) const;

 private:
  bool seize_new_threads();
  void wait_for_stops(std::chrono::steady_clock::time_point deadline);
  void detach();

  pid_t pid_;
  std::vector<StoppedThread> threads_;
  std::string problem_;
};

}  // namespace distrun
