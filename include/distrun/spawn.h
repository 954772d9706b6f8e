// Processes that run a function, with tensors that they share: torch.multiprocessing.spawn for C++.
//
//     void worker(int index, SpawnArguments& arguments) {
//       arguments.tensors.at(index).fill_(index);          // The parent sees it.
//       arguments.queues.at(0).put(at::ones({3}));
//     }
//     const SpawnFunction kWorker("worker", worker);        // At namespace scope.
//
//     int main() {
//       run_if_spawned();                                   // Before all else.
//       std::vector<at::Tensor> tensors = {at::zeros({3}), at::zeros({3})};
//       TensorQueue results(2, "results");
//       spawn(kWorker, 2, {.arguments = {.tensors = tensors, .queues = {results}}});
//     }
//
// A process is this program, executed again with the same arguments, as /proc/self/cmdline has
// them: a main() that writes into the strings of its argv hands on what it has written.  Its file
// may have been replaced meanwhile.  Loading LibTorch takes a third of a second.  It has no thread
// and no lock of the parent's, and may use GPUs and threads.  With StartMethod::kFork it is a fork
// instead, at once; but only a process with a single thread can be forked, and LibTorch starts
// threads early.
//
// A process ends by _exit() when its function has returned or thrown, with stdout and stderr
// flushed: static objects are not destroyed.  It gets SIGKILL when its parent ends, however that
// comes about.  It reads /dev/null as stdin, and is in the parent's process group: Ctrl-C reaches
// it too.  It inherits the environment and descriptors 1 and 2, a fork all descriptors; what is
// closed of 0 to 2 is /dev/null there.
//
// Descriptors: a process costs the parent three while it lives, and another one until it has
// been handed its arguments; each call costs one.  A process has two of its own, and those of its
// tensors and queues (shared_tensor.h, tensor_queue.h).  What is on its way to a process counts for
// the user, too: where spawn() says so, raise `ulimit -n`.
//
// The function may call spawn() itself.
//
// Errors: c10::ValueError for arguments that make no sense, c10::Error where a process cannot be
// started, and of processes that fail what process_exception.h has.
//
// Threads: any; StartMethod::kFork wants that there is but one.
//
// PyTorch: torch/multiprocessing/spawn.py.
#pragma once

#include <chrono>
#include <functional>
#include <optional>

#include "distrun/process_context.h"
#include "distrun/process_exception.h"
#include "distrun/spawn_function.h"

namespace distrun {

enum class StartMethod { kSpawn, kFork };

struct SpawnOptions {
  // Every process gets these.  The tensors are shared in place, as share_memory_() does it.
  SpawnArguments arguments = {};
  StartMethod start_method = StartMethod::kSpawn;
  // Of spawn() as a whole, from its beginning: a process that is still alive then has failed.
  // start_processes() does not heed it: see ProcessContext::finish().
  std::optional<std::chrono::milliseconds> timeout = std::nullopt;
  // Between SIGTERM and SIGKILL, where processes have to be ended.
  std::chrono::milliseconds grace_period = std::chrono::seconds(30);
};

// In a process that spawn() has started it runs the function and does not return.  In all others it
// returns at once.  Call it first in main(): what stands before it runs in every process, as what
// is at namespace scope does.
void run_if_spawned();

// Starts `nprocs` processes, which run the function with 0 … nprocs - 1 as their index, and waits
// for all.  Throws for the first that fails; the others have been ended then.
//
// Throws c10::ValueError where the function is empty, or a number or a time makes no sense, and
// c10::Error in a process that has been started so itself, and has not come to
// run_if_spawned(): it would start itself without end.
void spawn(const SpawnFunction& function, int nprocs = 1, SpawnOptions options = {});

// A function that is not registered: with StartMethod::kFork alone.  It has all that the parent
// has, but memory is a copy unless it is shared, as the tensors among the arguments are.
void spawn(const std::function<void(int index)>& function, int nprocs, const SpawnOptions& options);

// The time for processes to take their arguments, where spawn() has none of its own.
inline constexpr std::chrono::minutes kStartTimeout{10};

// The same without waiting.  Returns when the arguments are on their way: thousands of tensors are
// when the processes have begun to take them.  Where one fails meanwhile it returns at once, and
// join() throws.  Throws ProcessTimedOut where they are not on their way within kStartTimeout.
ProcessContext start_processes(const SpawnFunction& function, int nprocs = 1,
                               SpawnOptions options = {});
ProcessContext start_processes(const std::function<void(int index)>& function, int nprocs,
                               const SpawnOptions& options);

}  // namespace distrun
