#include "backends/group/run_directly.h"

#include <exception>
#include <memory>
#include <optional>

#include <ATen/record_function.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "backends/group/group_state.h"
#include "backends/group/operation_recorder.h"
#include "backends/group/run_collective.h"
#include "common/os/process_id.h"

namespace distrun::internal {

namespace {

// The keys of a plain tensor on the CPU.
constexpr c10::DispatchKeySet kPlainKeys({c10::DispatchKey::CPU, c10::DispatchKey::ADInplaceOrView,
                                          c10::DispatchKey::AutogradCPU,
                                          c10::DispatchKey::AutocastCPU});

bool is_simple(const at::Tensor* tensor) {
  if (tensor == nullptr) return true;
  return tensor->defined() && (tensor->key_set() | kPlainKeys) == kPlainKeys &&
         !tensor->requires_grad() && tensor->is_contiguous() && !tensor->is_complex();
}

// Modes, such as that of fake tensors, want to see the calls.
bool is_observed() {
  const c10::DispatchKeySet included = c10::impl::tls_local_dispatch_key_set().included_;
  const bool has_modes = (included | c10::default_included_set) != c10::default_included_set;
  return at::hasCallbacks() || has_modes || !can_record_directly();
}

}  // namespace

bool ran_directly(const CallSite& site, bool async_op, const DirectTensors& tensors,
                  c10::function_ref<bool(DirectCalls&, DirectCalls::Begin)> act) {
  if (async_op || !is_simple(tensors.output)) return false;
  if (tensors.input != tensors.output && !is_simple(tensors.input)) return false;
  if (world() == nullptr) return false;
  // Both stay while the call waits, in which another thread may abort and free the group.
  const std::shared_ptr<GroupState> state =
      site.group.is_default() ? world()->group : GroupAccess::state(site.group);
  if (state->direct_calls == nullptr || state->is_aborted || state->process != process_id()) {
    return false;
  }
  const c10::intrusive_ptr<c10d::ProcessGroup> group = state->process_group;
  if (!group || is_observed()) return false;
  std::optional<DirectRecord> record;
  const auto begin = [&] {
    record.emplace(DirectOperation{.op = site.function,
                                   .group = *group,
                                   .output = tensors.output,
                                   .input = tensors.input,
                                   .root = tensors.root});
  };
  std::exception_ptr error;
  try {
    if (!act(*state->direct_calls, begin)) return false;
  } catch (...) {
    error = std::current_exception();
  }
  record.reset();
  if (tensors.output != nullptr && tensors.writes_output && !tensors.output->is_inference()) {
    tensors.output->unsafeGetTensorImpl()->bump_version();
  }
  if (error) {
    const int rank = state->ranks[static_cast<std::size_t>(group->getRank())];
    std::rethrow_exception(ErrorsAt(site, state, rank).translated(error, ""));
  }
  return true;
}

}  // namespace distrun::internal
