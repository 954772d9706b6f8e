// spawn() starts processes that run a function and share tensors, as torch.multiprocessing.spawn
// does in Python.
//
//     void worker(int index, SpawnArguments& arguments) {
//       arguments.tensors.at(index).fill_(index);          // The parent sees the new values.
//       arguments.queues.at(0).put(at::ones({3}));
//     }
//     const SpawnFunction kWorker("worker", worker);        // At namespace scope.
//
//     int main() {
//       run_if_spawned();                                   // Before anything else.
//       std::vector<at::Tensor> tensors = {at::zeros({3}), at::zeros({3})};
//       TensorQueue results(2, "results");
//       spawn(kWorker, 2, {.arguments = {.tensors = tensors, .queues = {results}}});
//     }
//
// A spawned process executes this program again, with the command-line arguments of its parent.
// (If main() has changed its argv strings, the new process gets the changed strings.)  spawn()
// works even if the program's file has been replaced.  The new process has its own threads and
// locks, and may use GPUs.
//
// With StartMethod::kFork, the new process is a fork instead.  Only a process with a single thread
// can fork.  LibTorch starts threads early, so fork at the start of main().  A fork cannot run
// collectives in its parent's groups, but it can call init_process_group().
//
// When the function returns or throws, the new process flushes stdout and stderr and calls _exit(),
// so static objects are not destroyed.  The process is killed when its parent ends.  Its stdin is
// /dev/null.  It inherits the environment, stdout, stderr and the Unix process group of its parent,
// so Ctrl-C reaches it.  If stdout or stderr is closed in the parent, the new process gets
// /dev/null in its place.  A spawned process inherits no other file descriptors; a fork inherits
// all.  The function may call spawn().
//
// Throws: c10::ValueError for invalid arguments; c10::Error if a process cannot be started; the
// exceptions of process_exception.h for processes that fail.
// Thread safety: any thread.  StartMethod::kFork requires that the process has only one thread.
// Cost: a spawned process takes a third of a second to load LibTorch; a fork takes a few
// milliseconds.  The parent holds one file descriptor for each call and three for each process.
// Until the arguments are delivered, it holds a fourth one for each process.  A new process holds
// two descriptors, and those of its tensors and queues.  Descriptors that were sent and not yet
// received also count towards the user's limit of descriptors.  If spawn() fails because too many
// descriptors are open, raise `ulimit -n`.
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
  // Passed to the function in every process.  spawn() moves the tensors into shared memory, as
  // share_memory_() does.
  SpawnArguments arguments = {};
  // How processes are started.
  StartMethod start_method = StartMethod::kSpawn;
  // The time limit of the whole spawn() call.  At the timeout, spawn() ends the processes that are
  // still running, and throws.  Not set: no limit.  start_processes() ignores this option: see
  // ProcessContext::finish().
  std::optional<std::chrono::milliseconds> timeout = std::nullopt;
  // When processes are ended, the time between SIGTERM and SIGKILL.
  std::chrono::milliseconds grace_period = std::chrono::seconds(30);
};

// In a process that spawn() started, runs the process's function and does not return.  In other
// processes, returns at once.  Call run_if_spawned() first in main(), because the code before this
// call runs in every process, as code at namespace scope does.
void run_if_spawned();

// Starts `nprocs` processes, which run the function with the indices 0 to nprocs - 1, and waits for
// them.
//
// Blocks: until all processes have ended.  With SpawnOptions::timeout, at most the timeout plus the
// grace period plus ten seconds.
// Throws: ProcessException for the first process that fails, after spawn() has ended the others;
// ProcessTimedOut at SpawnOptions::timeout (without this option: if the arguments are not sent
// within kStartTimeout); c10::ValueError for an empty function, a name that two functions have, or
// an invalid `nprocs`; c10::Error if the caller is itself a spawned process that has not called
// run_if_spawned(), because each process would then start more processes.
void spawn(const SpawnFunction& function, int nprocs = 1, SpawnOptions options = {});

// Does the same for any function.  `options.start_method` must be StartMethod::kFork.  The
// processes have a copy of the parent's memory, and share the parent's shared memory.  The function
// gets only the index of its process; it can capture tensors and queues.
void spawn(const std::function<void(int index)>& function, int nprocs, const SpawnOptions& options);

// The time limit for sending the arguments to new processes: in start_processes(), and in spawn()
// if SpawnOptions::timeout is not set.
inline constexpr std::chrono::minutes kStartTimeout{10};

// Starts processes and does not wait for their end.
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
