#include "backends/make_group.h"

#include <algorithm>
#include <map>
#include <thread>

#include <c10/core/Device.h>
#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/debug.h>

#include "backends/backend_registry.h"
#include "backends/device_backends.h"
#include "backends/gloo.h"

namespace distrun::internal {

namespace {

using c10d::PrefixStore;
using c10d::ProcessGroup;

std::string name_of(c10::DeviceType device) {
  return c10::DeviceTypeName(device, /*lower_case=*/true);
}

// What Python chooses: nccl where a device has it, else what the first device has.
ProcessGroup::BackendType default_type(const std::vector<DeviceBackend>& backends) {
  const bool has_nccl = std::any_of(backends.begin(), backends.end(),
                                    [](const auto& one) { return one.backend == "nccl"; });
  return ProcessGroup::strToBackendType(has_nccl ? "nccl" : backends.front().backend);
}

c10::intrusive_ptr<c10d::Backend> make_backend(const GroupRequest& group,
                                               const DeviceBackend& which,
                                               const c10::intrusive_ptr<c10d::Store>& store) {
  using Options = c10d::Backend::Options;
  const auto options = c10::dynamic_intrusive_pointer_cast<Options>(group.backend_options);
  const BackendRequest request{
      .store = c10::make_intrusive<PrefixStore>(name_of(which.device) + "/", store),
      .rank = group.rank,
      .size = static_cast<int>(group.ranks.size()),
      .timeout = group.timeout,
      .ranks = group.ranks,
      .group_name = group.name,
      .options = options};
  const auto backend = find_backend(which.backend).make(request);
  TORCH_CHECK(backend, "the maker of the backend '", which.backend, "' has made none");
  if (c10d::debug_level() != c10d::DebugLevel::Detail) return backend;
  return make_checked_backend(backend, request);
}

}  // namespace

void check_backends(const std::string& backends,
                    const c10::intrusive_ptr<c10::intrusive_ptr_target>& options) {
  TORCH_CHECK_TYPE(!options || dynamic_cast<c10d::Backend::Options*>(options.get()) != nullptr,
                   "the options of a backend are c10d::Backend::Options");
  for (const DeviceBackend& one : parse_device_backends(backends)) {
    find_backend(one.backend);
    if (one.backend == "gloo") check_gloo_options(options);
  }
}

std::shared_ptr<GroupState> make_group(const GroupRequest& request) {
  const auto backends = parse_device_backends(request.backend);
  const auto store = c10::make_intrusive<PrefixStore>(request.name + "/", request.store);
  auto group = c10::make_intrusive<ProcessGroup>(store, request.rank,
                                                 static_cast<int>(request.ranks.size()));
  group->setDefaultBackend(default_type(backends));
  // One backend for all devices that have the same: Python makes it for the first of them.
  std::map<std::string, c10::intrusive_ptr<c10d::Backend>> made;
  for (const DeviceBackend& one : backends) {
    auto& backend = made[one.backend];
    if (!backend) backend = make_backend(request, one, store);
    group->setBackend(one.device, ProcessGroup::strToBackendType(one.backend), backend);
  }
  group->setGroupName(request.name);
  group->setGroupDesc(request.description);
  c10d::register_process_group(request.name, group);

  auto state = std::make_shared<GroupState>();
  state->name = request.name;
  state->ranks = request.ranks;
  state->backend = request.backend;
  state->process_group = std::move(group);
  state->is_member = true;
  state->maker = std::this_thread::get_id();
  return state;
}

}  // namespace distrun::internal
