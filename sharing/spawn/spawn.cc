#include "distrun/spawn.h"

#include <cstdlib>
#include <memory>
#include <utility>

#include <c10/util/Exception.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/deadline.h"
#include "common/text/parse_number.h"
#include "distrun/shared_tensor.h"
#include "sharing/spawn/process_set.h"
#include "sharing/spawn/registered_function.h"
#include "sharing/spawn/spawn_call.h"
#include "sharing/spawn/spawn_worker.h"

namespace distrun {

struct internal::ProcessContextAccess {
  static ProcessContext make(std::unique_ptr<ProcessSet> set) {
    return ProcessContext(std::move(set));
  }
};

namespace {

using internal::ProcessSet;
using internal::StartedProcess;
using std::chrono::milliseconds;

void check_call(bool is_function, int nprocs, const SpawnOptions& options) {
  TORCH_CHECK_VALUE(is_function, "spawn: the function is empty; expected one to call");
  TORCH_CHECK_VALUE(nprocs > 0, "spawn: nprocs is ", nprocs, "; expected 1 or more");
  for (const auto time : {options.timeout.value_or(kStartTimeout), options.grace_period}) {
    TORCH_CHECK_VALUE(time.count() >= 0, "spawn: a time is ", time.count(),
                      " ms; expected 0 or more");
  }
  TORCH_CHECK(std::getenv(internal::kSpawnedVariable) == nullptr,
              "spawn: spawn() started this process, which would start itself forever: "
              "main() must call run_if_spawned() first");
}

// The time limit of a call, counted from its start.
struct Limit {
  explicit Limit(milliseconds time) : timeout(time), until(deadline_after(time)) {}

  milliseconds timeout;
  ProcessSet::Clock::time_point until;
};

using Set = std::unique_ptr<ProcessSet>;

Set start_forks(const std::function<void(int)>& function, int nprocs, const SpawnOptions& options) {
  auto set = std::make_unique<ProcessSet>(options.grace_period);
  for (int index = 0; index < nprocs; ++index) {
    set->add(internal::start_fork(index, [&](internal::WorkerEnds ends) {
      internal::run_forked(std::move(ends), [&] { function(index); });
    }));
  }
  return set;
}

Set start_unregistered(const std::function<void(int)>& function, int nprocs,
                       const SpawnOptions& options) {
  TORCH_CHECK_VALUE(
      options.start_method == StartMethod::kFork,
      "spawn: a function that is not registered as a SpawnFunction can only be forked: "
      "use StartMethod::kFork");
  check_call(function != nullptr, nprocs, options);
  for (const at::Tensor& tensor : options.arguments.tensors) share_memory_(tensor);
  return start_forks(function, nprocs, options);
}

Set start_registered(const SpawnFunction& function, int nprocs, SpawnOptions options,
                     const Limit& limit) {
  check_call(function.function() != nullptr, nprocs, options);
  internal::registered_function(function.name());
  if (options.start_method == StartMethod::kFork) {
    for (const at::Tensor& tensor : options.arguments.tensors) share_memory_(tensor);
    const auto call = [&](int index) { function.function()(index, options.arguments); };
    return start_forks(call, nprocs, options);
  }
  const internal::PackedCall call(function.name(), options.arguments);
  options.arguments = {};
  auto set = std::make_unique<ProcessSet>(options.grace_period);
  std::vector<StartedProcess*> processes;  // All start before the first gets its call.
  processes.reserve(static_cast<std::size_t>(nprocs));
  for (int index = 0; index < nprocs; ++index) {
    processes.push_back(&set->add(internal::start_fresh(index)));
  }
  for (StartedProcess* process : processes) {
    if (!set->has_failed()) call.send_to(*process, *set, limit.until);
  }
  if (ProcessSet::Clock::now() >= limit.until) set->finish(limit.until, limit.timeout);
  return set;
}

Limit limit_of(const SpawnOptions& options) {
  return Limit(options.timeout.value_or(kStartTimeout));
}

void wait_for(ProcessSet& set, bool is_limited, const Limit& limit) {
  if (is_limited) {
    set.finish(limit.until, limit.timeout);
  } else {
    set.join();
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
  const Limit limit = limit_of(options);
  const auto timeout = options.timeout;
  wait_for(*start_registered(function, nprocs, std::move(options), limit), timeout.has_value(),
           limit);
}

void spawn(const std::function<void(int)>& function, int nprocs, const SpawnOptions& options) {
  const Limit limit = limit_of(options);
  wait_for(*start_unregistered(function, nprocs, options), options.timeout.has_value(), limit);
}

ProcessContext start_processes(const SpawnFunction& function, int nprocs, SpawnOptions options) {
  const Limit limit(kStartTimeout);
  return internal::ProcessContextAccess::make(
      start_registered(function, nprocs, std::move(options), limit));
}

ProcessContext start_processes(const std::function<void(int)>& function, int nprocs,
                               const SpawnOptions& options) {
  return internal::ProcessContextAccess::make(start_unregistered(function, nprocs, options));
}

}  // namespace distrun
