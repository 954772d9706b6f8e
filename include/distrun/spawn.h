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
// A process executes this program again with the arguments in /proc/self/cmdline; if main() writes
// into its argv strings, it passes on what it wrote.  The program's file may have been replaced
// meanwhile.  The process shares no thread or lock with its parent and may use GPUs and threads.
// With StartMethod::kFork it is a fork instead, which only a process with a single thread can make,
// and LibTorch starts threads early.
//
// When its function returns or throws, a process flushes stdout and stderr and calls _exit():
// static objects are not destroyed.  It is killed when its parent ends.  stdin is /dev/null;
// environment, process group (Ctrl-C) and descriptors 1 and 2 are the parent's, and a fork has all
// descriptors.  Descriptors 0 to 2 that are closed become /dev/null.  The function may call
// spawn().
//
// Throws: c10::ValueError for invalid arguments, c10::Error if a process cannot be started, and for
// processes that fail the exceptions of process_exception.h.
// Thread safety: any thread; StartMethod::kFork requires that there is only one.
// Cost: a third of a second per process to load LibTorch, and almost nothing for a fork.  The
// parent holds three descriptors per process, another until its arguments are delivered, and one
// per call; a process holds two, and those of its tensors and queues.  Descriptors in transit count
// for the user: raise `ulimit -n` if spawn() says so.
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
  // Limits spawn() as a whole: a process that is alive then has failed.  start_processes() ignores
  // it: see ProcessContext::finish().
  std::optional<std::chrono::milliseconds> timeout = std::nullopt;
  // The time between SIGTERM and SIGKILL for processes that must end.
  std::chrono::milliseconds grace_period = std::chrono::seconds(30);
};

// In a process that spawn() started, runs its function and does not return; elsewhere returns at
// once.  Call it first in main(): code before it, and at namespace scope, runs in every process.
void run_if_spawned();

// Starts `nprocs` processes that run the function with the indices 0 to nprocs - 1.
//
// Blocks: until all processes have ended, at most SpawnOptions::timeout and the time to end them.
// Throws: for the first process that fails, after it has ended the others; ProcessTimedOut;
// c10::ValueError for an empty function or an invalid number; c10::Error in a process that was
// spawned itself and has not called run_if_spawned(), because it would spawn without end.
void spawn(const SpawnFunction& function, int nprocs = 1, SpawnOptions options = {});

// Does the same for any function, only with StartMethod::kFork.  Processes have all of the parent's
// memory as a copy, except shared memory such as the tensors among the arguments.
void spawn(const std::function<void(int index)>& function, int nprocs, const SpawnOptions& options);

// The time that processes have to take their arguments, if spawn() has no timeout.
inline constexpr std::chrono::minutes kStartTimeout{10};

// Starts processes without waiting for their end.
//
// Blocks: until the arguments are sent: with thousands of tensors, until processes have started to
// take them.  It returns early if a process fails; join() then throws.
// Throws: as spawn(); ProcessTimedOut if the arguments are not sent within kStartTimeout.
ProcessContext start_processes(const SpawnFunction& function, int nprocs = 1,
                               SpawnOptions options = {});
// Does the same for any function, only with StartMethod::kFork.
ProcessContext start_processes(const std::function<void(int index)>& function, int nprocs,
                               const SpawnOptions& options);

}  // namespace distrun
