// Starts processes that run a function and share tensors: torch.multiprocessing.spawn for C++.
//
//     void worker(int index, SpawnArguments& arguments) {
//       arguments.tensors.at(index).fill_(index);          // The parent sees it.
//       arguments.queues.at(0).put(at::ones({3}));
//     }
//     const SpawnFunction kWorker("worker", worker);        // At namespace scope.
//
//     int main() {
//       run_if_spawned();                                   // First.
//       std::vector<at::Tensor> tensors = {at::zeros({3}), at::zeros({3})};
//       TensorQueue results(2, "results");
//       spawn(kWorker, 2, {.arguments = {.tensors = tensors, .queues = {results}}});
//     }
//
// A spawned process executes this program again, with the command-line arguments of its parent.
// (If main() has changed its argv strings, the new process gets the changed strings.)  spawn()
// works even if the program's file has been replaced.  The new process shares no thread or lock
// with its parent, and may use GPUs and threads.  With StartMethod::kFork, the new process is a
// fork instead.  Only a process with a single thread can fork.  LibTorch starts threads early, so
// fork at the start of main().  A fork cannot run collectives in its parent's groups, but it can
// call init_process_group().
//
// When the function returns or throws, the new process flushes stdout and stderr and calls _exit(),
// so static objects are not destroyed.  It is killed when its parent ends.  Its stdin is /dev/null.
// It inherits the parent's environment, stdout, stderr and Unix process group, so that Ctrl-C
// reaches it.  If stdout or stderr is closed in the parent, the new process gets /dev/null in its
// place.  A fork inherits all descriptors.  The function may call spawn().
//
// Throws: c10::ValueError for invalid arguments; c10::Error if a process cannot be started; the
// exceptions of process_exception.h for processes that fail.
// Thread safety: any thread; StartMethod::kFork requires that the process has only one thread.
// Cost: a spawned process needs a third of a second to load LibTorch; a fork needs almost no time.
// The parent holds one file descriptor for each call and three for each process, and one more for
// each process until the arguments are delivered.  A process holds two descriptors, and the
// descriptors of its tensors and queues.  Descriptors that were sent and not yet received also
// count towards the user's limit.  If spawn() fails because too many descriptors are open, raise
// `ulimit -n`.
// PyTorch source: torch/multiprocessing/spawn.py.
#pragma once

#include <chrono>
#include <functional>
#include <optional>

#include "distrun/process_context.h"
#include "distrun/process_exception.h"
#include "distrun/spawn_function.h"

namespace distrun {

// How processes are started.
enum class StartMethod {
  kSpawn,  // The program is executed again.
  kFork    // The process is forked.
};

// Options of spawn() and start_processes().
struct SpawnOptions {
  // Passed to every process.  spawn() moves the tensors into shared memory, as share_memory_()
  // does.
  SpawnArguments arguments = {};
  // How processes are started.
  StartMethod start_method = StartMethod::kSpawn;
  // The time limit of the whole spawn() call.  If a process is still running at the timeout,
  // spawn() ends it and throws.  Not set: no limit.  start_processes() ignores this option: see
  // ProcessContext::finish().
  std::optional<std::chrono::milliseconds> timeout = std::nullopt;
  // When spawn() ends processes, the time between SIGTERM and SIGKILL.
  std::chrono::milliseconds grace_period = std::chrono::seconds(30);
};

// In a process that spawn() started, runs the process's function and does not return.  In other
// processes, returns at once.  Call it first in main(), because code before it, and code at
// namespace scope, runs in every process.
void run_if_spawned();

// Starts `nprocs` processes, which run the function with the indices 0 to nprocs - 1.
//
// Blocks: until all processes have ended, at most SpawnOptions::timeout plus the grace period plus
// ten seconds.
// Throws: ProcessException for the first process that fails, after spawn() has ended the others;
// ProcessTimedOut at the timeout, or if the arguments are not sent within kStartTimeout;
// c10::ValueError for an empty function or an invalid `nprocs`; c10::Error if the caller is itself
// a spawned process that has not called run_if_spawned(), because each process would then start
// more processes.
void spawn(const SpawnFunction& function, int nprocs = 1, SpawnOptions options = {});

// Does the same for any function.  `options.start_method` must be StartMethod::kFork.  The
// processes have a copy of the parent's memory.  They share its shared memory.
void spawn(const std::function<void(int index)>& function, int nprocs, const SpawnOptions& options);

// The time limit for sending the arguments to new processes: in start_processes(), and in spawn()
// if SpawnOptions::timeout is not set.
inline constexpr std::chrono::minutes kStartTimeout{10};

// Starts processes without waiting for their end.
//
// Blocks: until the arguments are sent.  With thousands of tensors, also until the processes have
// received some of them.  If a process fails, the call returns early, and ProcessContext::join()
// throws.
// Throws: c10::ValueError and c10::Error as spawn() does, and ProcessTimedOut if the arguments are
// not sent within kStartTimeout.
ProcessContext start_processes(const SpawnFunction& function, int nprocs = 1,
                               SpawnOptions options = {});
// Does the same for any function.  `options.start_method` must be StartMethod::kFork.
ProcessContext start_processes(const std::function<void(int index)>& function, int nprocs,
                               const SpawnOptions& options);

}  // namespace distrun
