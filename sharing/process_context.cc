#include "sharing/process_context.h"

#include <utility>

#include "sharing/process_set.h"

namespace distrun {

ProcessContext::ProcessContext(std::unique_ptr<internal::ProcessSet> set) : set_(std::move(set)) {}
ProcessContext::ProcessContext(ProcessContext&&) noexcept = default;
ProcessContext& ProcessContext::operator=(ProcessContext&&) noexcept = default;
ProcessContext::~ProcessContext() = default;

void ProcessContext::join() { set_->join(); }

bool ProcessContext::join(std::chrono::milliseconds timeout) {
  return set_->join(internal::time_after(timeout));
}

void ProcessContext::finish(std::chrono::milliseconds timeout) { set_->finish(timeout); }

std::vector<pid_t> ProcessContext::pids() const { return set_->pids(); }

}  // namespace distrun
