// StoppedProcess stops the threads of another process while it exists, so that their stacks can be
// read. Then the threads go on: no signal is lost, and most system calls that were waiting continue
// to wait. Those of signal(7) that a stop interrupts return EINTR, as they do after SIGSTOP and
// SIGCONT: epoll_wait(2), semtimedop(2), sigtimedwait(2), and calls on sockets with a time limit.
//
//     StoppedProcess process(4711, deadline);
//     for (const StoppedThread& thread : process.threads()) …
//     process.read(address, buffer, size);
//
// It uses ptrace(2). The system allows that for descendants of this process, unless a security
// policy forbids it or another debugger is attached; problem() says so.
//
// Create and use it in a thread of its own, and end that thread afterwards (StackCollector does):
// if a thread of the process could not be stopped in time, because it waits in the kernel, the end
// of the tracing thread lets it go. No code of this process may meanwhile wait for stops of
// children.
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
  bool is_stopped = false;           // Otherwise it waits in the kernel, or has just ended.
  int signal = 0;                    // A signal that was arriving; the thread gets it afterwards.
  std::uint64_t thread_pointer = 0;  // Its pthread_t.
};

class StoppedProcess {
 public:
  // Waits for the threads until `deadline`.
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
