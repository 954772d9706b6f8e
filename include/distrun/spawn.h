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
// By default, each new process executes this program again, with the command-line arguments of its
// parent.  Such a process is a spawned process.  If main() has changed its argv strings, the new
// process gets the changed strings.  spawn() works even if the program's file has been replaced.  A
// spawned process has its own threads and locks, and may use GPUs.
//
// With StartMethod::kFork, the new process is a fork instead.  The parent must then have only one
// thread.  LibTorch starts threads early, so call spawn() at the start of main().  A fork cannot
// run collectives in its parent's groups, but it can call init_process_group().
//
// When the function returns or throws, the new process flushes stdout and stderr and calls _exit(),
// so static objects are not destroyed.  A new process is killed when its parent ends.  The function
// may call spawn().
//
// The stdin of a new process is /dev/null.  A new process inherits the environment, stdout and
// stderr of its parent.  If stdout or stderr is closed in the parent, the new process gets
// /dev/null instead.  A spawned process inherits no other file descriptors.  A fork inherits all of
// them.  A new process is in the Unix process group of its parent, so Ctrl-C reaches it.
//
// Throws: c10::ValueError if arguments are invalid.
// Also throws c10::Error if a process cannot be started.
// Also throws the exceptions of process_exception.h if a process fails.
// Thread safety: any thread may call these functions.  With StartMethod::kFork, the process must
// have only one thread.
// Cost: a spawned process takes a third of a second to load LibTorch.  A fork takes a few
// milliseconds.  The parent needs one file descriptor for each call and three for each process.
// Until the arguments are delivered, the parent needs a fourth descriptor for each process.  A new
// process needs two descriptors, in addition to those of its tensors and queues.  Tensors
// and queues are sent to a new process as descriptors.  Until the process has received them, they
// count towards a limit for each user, which is also `ulimit -n`.  If spawn()
// fails because too many descriptors are open, raise `ulimit -n`.
// PyTorch source: torch/multiprocessing/spawn.py.
#pragma once

#include <chrono>
#include <functional>
#include <optional>

#include "distrun/process_context.h"
#include "distrun/process_exception.h"
#include "distrun/spawn_function.h"

namespace distrun {

// The way in which processes are started.
enum class StartMethod {
  kSpawn,  // The program is executed again.
  kFork    // The process is forked.
};

// Options of spawn() and start_processes().
struct SpawnOptions {
  // The arguments of the function.  spawn() moves the tensors into shared memory, as
  // share_memory_() does.
  SpawnArguments arguments = {};
  // The way in which processes are started.
  StartMethod start_method = StartMethod::kSpawn;
  // The time limit of the whole spawn() call.  At the timeout, spawn() ends the processes that are
  // still running, and throws.  If `timeout` is not set, there is no limit.  start_processes()
  // ignores this option.  Use ProcessContext::finish() instead.
  std::optional<std::chrono::milliseconds> timeout = std::nullopt;
  // The time between SIGTERM and SIGKILL when distrun ends processes.
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
// Throws: ProcessException for the first process that fails.  spawn() first ends the other
// processes.
// Also throws ProcessTimedOut at SpawnOptions::timeout.  If this option is not set, spawn() throws
// ProcessTimedOut if the arguments are not sent within kStartTimeout.
// Also throws c10::ValueError if the function is empty, or if another SpawnFunction has the
// same name.
// Also throws c10::ValueError if `nprocs` is less than 1, or if a time in `options` is negative.
// Also throws c10::Error in a spawned process that has not called run_if_spawned(), because each
// process would then start more processes.
void spawn(const SpawnFunction& function, int nprocs = 1, SpawnOptions options = {});

// Does the same for any function.  `options.start_method` must be StartMethod::kFork.  Each process
// has a copy of the parent's memory.  Shared memory of the parent is not copied: the processes
// share it.  The function gets the index of its process as its only argument, but it can capture
// tensors and queues.
void spawn(const std::function<void(int index)>& function, int nprocs, const SpawnOptions& options);

// The time limit for sending the arguments to new processes.  It applies to start_processes(), and
// to spawn() if SpawnOptions::timeout is not set.
inline constexpr std::chrono::minutes kStartTimeout{10};

// Starts processes, and does not wait until they have ended.
//
// Blocks: until the arguments are sent.  With thousands of tensors, start_processes() also blocks
// until the processes have received some of these tensors.  If a process fails, start_processes()
// returns early, and ProcessContext::join() throws.
// Throws: c10::ValueError and c10::Error as spawn() does.
// Also throws ProcessTimedOut if the arguments are not sent within kStartTimeout.
ProcessContext start_processes(const SpawnFunction& function, int nprocs = 1,
                               SpawnOptions options = {});
// Does the same for any function.  `options.start_method` must be StartMethod::kFork.
ProcessContext start_processes(const std::function<void(int index)>& function, int nprocs,
                               const SpawnOptions& options);

}  // namespace distrun
