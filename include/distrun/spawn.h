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
// A spawned process executes this program again with the arguments in /proc/self/cmdline.  If
// main() writes into its argv strings, the new process gets the changed strings.  spawn() works
// even if the program's file has been replaced.  The process shares no thread or lock with its
// parent, and may use GPUs and threads.  With StartMethod::kFork the process is a fork instead.
// Only a process with a single thread can fork.  LibTorch starts threads early, so fork at the
// start of main().  A fork cannot run collectives in its parent's groups, but it can call
// init_process_group().
//
// When its function returns or throws, a process flushes stdout and stderr and calls _exit(), so
// static objects are not destroyed.  A process is killed when its parent ends.  Its stdin is
// /dev/null.  It inherits the parent's environment, stdout, stderr and Unix process group, so that
// Ctrl-C reaches it.  A fork inherits all descriptors.  If stdout or stderr is closed in the
// parent, the process gets /dev/null in its place.  The function may call spawn().
//
// Throws: c10::ValueError for invalid arguments; c10::Error if a process cannot be started; the
// exceptions of process_exception.h for processes that fail.
// Thread safety: any thread; StartMethod::kFork requires that there is only one.
// Cost: a third of a second per process to load LibTorch, and almost nothing for a fork.  The
// parent holds one descriptor per call and three per process, and one more per process until the
// arguments are delivered.  A process holds two descriptors, and the descriptors of its tensors and
// queues.  Descriptors that were sent and not yet received count towards the user's limit.  If
// spawn() fails because too many are open, raise `ulimit -n`.
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
  // Passed to every process.  The tensors are moved into shared memory, as by share_memory_().
  SpawnArguments arguments = {};
  // How processes are started.
  StartMethod start_method = StartMethod::kSpawn;
  // The time limit of the whole spawn() call.  A process that is still running at the timeout has
  // failed. start_processes() ignores this option: see ProcessContext::finish().
  std::optional<std::chrono::milliseconds> timeout = std::nullopt;
  // The time between SIGTERM and SIGKILL for processes that must end.
  std::chrono::milliseconds grace_period = std::chrono::seconds(30);
};

// In a process that spawn() started, runs the process's function and does not return.  In other
// processes, returns at once.  Call it first in main(), because code before it, and code at
// namespace scope, runs in every process.
void run_if_spawned();

// Starts `nprocs` processes that run the function with the indices 0 to nprocs - 1.
//
// Blocks: until all processes have ended, at most SpawnOptions::timeout plus the time to end them.
// Throws: ProcessException for the first process that fails, after spawn() has ended the others.
// ProcessTimedOut at the timeout.  c10::ValueError for an empty function or an invalid `nprocs`.
// c10::Error if the caller is itself a spawned process that has not called run_if_spawned():
// otherwise each process would start more.
void spawn(const SpawnFunction& function, int nprocs = 1, SpawnOptions options = {});

// Does the same for any function.  `options.start_method` must be StartMethod::kFork.  Processes
// have a copy of all of the parent's memory, and share its shared memory.
void spawn(const std::function<void(int index)>& function, int nprocs, const SpawnOptions& options);

// The time limit for sending arguments to new processes, if SpawnOptions::timeout is not set.
inline constexpr std::chrono::minutes kStartTimeout{10};

// Starts processes without waiting for their end.
//
// Blocks: until the arguments are sent.  With thousands of tensors, also until the processes have
// received some of them.  Returns early if a process fails; join() then throws.
// Throws: c10::ValueError and c10::Error as spawn() does, and ProcessTimedOut if the arguments are
// not sent within kStartTimeout.
ProcessContext start_processes(const SpawnFunction& function, int nprocs = 1,
                               SpawnOptions options = {});
// Does the same for any function.  `options.start_method` must be StartMethod::kFork.
ProcessContext start_processes(const std::function<void(int index)>& function, int nprocs,
                               const SpawnOptions& options);

}  // namespace distrun
