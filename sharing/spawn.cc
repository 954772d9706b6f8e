#include "sharing/spawn.h"

#include <cstdlib>
#include <memory>
#include <utility>

#include <c10/util/Exception.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/parse_number.h"
#include "sharing/process_set.h"
#include "sharing/shared_tensor.h"
#include "sharing/spawn_call.h"
#include "sharing/spawn_worker.h"

namespace distrun {

namespace {

using internal::ProcessSet;
using internal::SpawnedProcess;

void check_call(int nprocs) {
  TORCH_CHECK_VALUE(nprocs > 0, "spawn: nprocs is ", nprocs, ", and has to be 1 or more");
  TORCH_CHECK(
      std::getenv(internal::kSpawnedVariable) == nullptr,
      "spawn: this process has been started by spawn() itself, and would start itself without "
      "end: main() has to call run_if_spawned() before all else");
}

ProcessContext start_forks(const std::function<void(int)>& function, int nprocs,
                           const SpawnOptions& options) {
  auto set = std::make_unique<ProcessSet>(options.grace_period);
  for (int index = 0; index < nprocs; ++index) {
    set->add(internal::start_fork(index, [&](internal::WorkerEnds ends) {
      internal::run_forked(std::move(ends), [&] { function(index); });
    }));
  }
  return ProcessContext(std::move(set));
}

void wait_for(ProcessContext context, const std::optional<std::chrono::milliseconds>& timeout) {
  if (timeout) {
    context.finish(*timeout);
  } else {
    context.join();
  }
}

}  // namespace

void run_if_spawned() {
  const char* const variable = std::getenv(internal::kSpawnedVariable);
  if (variable == nullptr) return;
  const auto number = parse_number<int>(variable);
  UniqueFd control(number ? *number : -1);
  ::unsetenv(internal::kSpawnedVariable);
  ::fcntl(control.get(), F_SETFD, FD_CLOEXEC);
  internal::run_spawned(std::move(control));
}

void spawn(const SpawnFunction& function, int nprocs, SpawnOptions options) {
  const auto timeout = options.timeout;
  wait_for(start_processes(function, nprocs, std::move(options)), timeout);
}

void spawn(const std::function<void(int)>& function, int nprocs, const SpawnOptions& options) {
  wait_for(start_processes(function, nprocs, options), options.timeout);
}

ProcessContext start_processes(const SpawnFunction& function, int nprocs, SpawnOptions options) {
  check_call(nprocs);
  internal::registered_function(function.name());
  if (options.start_method == StartMethod::kFork) {
    for (const at::Tensor& tensor : options.arguments.tensors) share_memory_(tensor);
    const auto call = [&](int index) { function.function()(index, options.arguments); };
    return start_forks(call, nprocs, options);
  }
  const internal::PackedCall call(function.name(), options.arguments);
  options.arguments = {};
  auto set = std::make_unique<ProcessSet>(options.grace_period);
  std::vector<SpawnedProcess*> processes;  // All of them start before one is told what to do.
  processes.reserve(static_cast<std::size_t>(nprocs));
  for (int index = 0; index < nprocs; ++index) {
    processes.push_back(&set->add(internal::start_fresh(index)));
  }
  for (SpawnedProcess* process : processes) call.send_to(*process);
  return ProcessContext(std::move(set));
}

ProcessContext start_processes(const std::function<void(int)>& function, int nprocs,
                               const SpawnOptions& options) {
  check_call(nprocs);
  TORCH_CHECK_VALUE(
      options.start_method == StartMethod::kFork,
      "spawn: a function that is not registered as a SpawnFunction can only be forked: "
      "use StartMethod::kFork");
  return start_forks(function, nprocs, options);
}

}  // namespace distrun
