#include "distrun/process_context.h"

#include <utility>

#include <c10/util/Exception.h>

#include "common/deadline.h"
#include "sharing/spawn/process_set.h"

namespace distrun {

ProcessContext::ProcessContext(std::unique_ptr<internal::ProcessSet> set) : set_(std::move(set)) {}
ProcessContext::ProcessContext(ProcessContext&&) noexcept = default;
ProcessContext& ProcessContext::operator=(ProcessContext&&) noexcept = default;
ProcessContext::~ProcessContext() = default;

internal::ProcessSet& ProcessContext::set() const {
  TORCH_CHECK(set_, "join: this ProcessContext has been moved from, and has no processes");
  return *set_;
}

bool ProcessContext::join(std::optional<std::chrono::milliseconds> timeout) {
  return timeout ? set().join(deadline_after(*timeout)) : set().join();
}

void ProcessContext::finish(std::chrono::milliseconds timeout) {
  set().finish(deadline_after(timeout), timeout);
}

std::vector<pid_t> ProcessContext::pids() const { return set().pids(); }

}  // namespace distrun
