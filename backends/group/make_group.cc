#include "backends/group/make_group.h"

#include <algorithm>
#include <exception>
#include <map>
#include <set>
#include <thread>

#include <c10/core/Device.h>
#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/debug.h>

#include "backends/group/collective_checks.h"
#include "backends/group/device_backends.h"
#include "backends/group/direct_calls.h"
#include "backends/group/forwarding_backend.h"
#include "backends/group/registered_backends.h"
#include "common/text/rank_list.h"

namespace distrun::internal {

namespace {

using c10d::PrefixStore;
using c10d::ProcessGroup;

std::string device_name(c10::DeviceType device) {
  return c10::DeviceTypeName(device, /*lower_case=*/true);
}

bool is_custom(const std::string& backend) {
  return ProcessGroup::strToBackendType(backend) == ProcessGroup::BackendType::CUSTOM;
}

// As in Python: nccl if a device uses it, else the first device's backend.
ProcessGroup::BackendType default_type(const std::vector<DeviceBackend>& backends) {
  const bool has_nccl = std::any_of(backends.begin(), backends.end(),
                                    [](const auto& one) { return one.backend == "nccl"; });
  return ProcessGroup::strToBackendType(has_nccl ? "nccl" : backends.front().backend);
}

// The backend itself, without the wrappers of TORCH_DISTRIBUTED_DEBUG.
c10::intrusive_ptr<c10d::Backend> unwrapped(c10::intrusive_ptr<c10d::Backend> backend) {
  while (const auto* wrapper = dynamic_cast<const ForwardingBackend*>(backend.get())) {
    backend = wrapper->inner_pointer();
  }
  return backend;
}

// The backend that this one can be split from. Null if there is none.
c10::intrusive_ptr<c10d::Backend> parent_of(const GroupRequest& group, const DeviceBackend& which) {
  if (group.split_from == nullptr || !group.device || which.device != group.device->type()) {
    return {};
  }
  auto parent = unwrapped(group.split_from->getBackend(which.device));
  const bool can_split = parent->getBackendName() == which.backend && parent->supportsSplitting();
  return can_split ? parent : c10::intrusive_ptr<c10d::Backend>();
}

// The backend of the replaced group, if it can shrink. Null otherwise.
c10::intrusive_ptr<c10d::Backend> shrinkable(const GroupRequest& group,
                                             const DeviceBackend& which) {
  if (!group.shrink) return {};
  auto old = unwrapped(group.shrink->group->getBackend(which.device));
  return old->supportsShrinking() ? old : c10::intrusive_ptr<c10d::Backend>();
}

c10::intrusive_ptr<c10d::Backend> make_backend(const GroupRequest& group,
                                               const DeviceBackend& which,
                                               const c10::intrusive_ptr<c10d::Store>& store) {
  using Options = c10d::Backend::Options;
  const auto options =
      c10::dynamic_intrusive_pointer_cast<Options>(group.backend_options.pointer());
  const BackendRequest request{
      .store = c10::make_intrusive<PrefixStore>(device_name(which.device) + "/", store),
      .rank = group.rank,
      .size = static_cast<int>(group.ranks.size()),
      .timeout = group.timeout,
      .ranks = group.ranks,
      .group_name = group.name,
      .options = options,
      .device = group.device,
      .split_from = parent_of(group, which)};
  const RegisteredBackend& registered = find_backend(which.backend);
  const auto old = shrinkable(group, which);
  auto backend = old ? old->shrink(group.shrink->without, group.shrink->abort ? 1 : 0, options)
                     : registered.make(request);
  TORCH_CHECK(backend, "the maker of backend '", which.backend,
              "' returned null; expected a backend");
  backend->setBoundDeviceId(request.device);  // The group sets only that of a wrapper.
  if (c10d::debug_level() != c10d::DebugLevel::Detail) return backend;
  if (!registered.traits->needs_rendezvous()) return backend;  // No other rank exists.
  return make_checked_backend(backend, request);
}

c10::intrusive_ptr<ProcessGroup> with_backends(const GroupRequest& request) {
  const auto backends = parse_device_backends(request.backend);
  const auto store = c10::make_intrusive<PrefixStore>(request.name + "/", request.store);
  auto group = c10::make_intrusive<ProcessGroup>(store, request.rank,
                                                 static_cast<int>(request.ranks.size()));
  group->setDefaultBackend(default_type(backends));
  group->setBoundDeviceId(request.device);
  // Devices with the same backend share one object, created for the first device, as in Python.
  std::map<std::string, c10::intrusive_ptr<c10d::Backend>> made;
  for (const DeviceBackend& one : backends) {
    auto& backend = made[one.backend];
    if (!backend) backend = make_backend(request, one, store);
    group->setBackend(one.device, ProcessGroup::strToBackendType(one.backend), backend);
  }
  return group;
}

void connect_at_once(ProcessGroup& group, const GroupRequest& request) {
  for (const DeviceBackend& one : parse_device_backends(request.backend)) {
    if (!request.device || request.device->type() != one.device) continue;
    if (shrinkable(request, one)) continue;  // It is connected.
    const auto backend = group.getBackend(one.device);
    if (backend->supportsSplitting()) backend->eagerConnectSingleDevice(*request.device);
  }
}

// Adds the group to errors: if ranks are missing, a backend names at most their group ranks.
c10::intrusive_ptr<ProcessGroup> connect(const GroupRequest& request) {
  const auto whose = [&] {
    const int rank = request.ranks[static_cast<std::size_t>(request.rank)];
    return c10::str("rank ", rank, " creates group ", request.name, " of ",
                    list_of_ranks(request.ranks));
  };
  try {
    auto group = with_backends(request);
    // Before it connects: the log and the flight recorder of LibTorch show the name.
    group->setGroupName(request.name);
    group->setGroupDesc(request.description);
    connect_at_once(*group, request);
    return group;
  } catch (c10::Error& error) {
    error.add_context(whose());
    throw;
  } catch (const std::exception& error) {
    TORCH_CHECK_WITH(DistBackendError, false, error.what(), " (", whose(), ")");
  }
}

}  // namespace

void check_backends(const std::string& backends, const BackendOptions& options,
                    const std::optional<c10::Device>& device) {
  std::set<std::string> registered;
  bool has_device = false;
  for (const DeviceBackend& one : parse_device_backends(backends)) {
    find_backend(one.backend).traits->check_options(options);
    if (is_custom(one.backend)) registered.insert(one.backend);
    has_device = has_device || (device && device->type() == one.device);
  }
  TORCH_CHECK_VALUE(!device || (!device->is_cpu() && device->has_index()), "device_id is ",
                    device.value_or(at::kCPU), "; expected a GPU with its index, such as cuda:0");
  TORCH_CHECK_VALUE(!device || has_device, "device_id is ", device.value_or(at::kCPU),
                    ", and the backend '", backends, "' has none for it");
  // ProcessGroup has a single slot for backends whose names LibTorch does not know.
  TORCH_CHECK_VALUE(registered.size() <= 1, "the backend '", backends,
                    "' names two registered backends; LibTorch supports one per group");
}

void abort_before_shrink(const GroupRequest& request) {
  for (const DeviceBackend& one : parse_device_backends(request.backend)) {
    if (!shrinkable(request, one)) request.shrink->group->getBackend(one.device)->abort();
  }
}

std::shared_ptr<GroupState> outside_of(const GroupRequest& request) {
  auto state = std::make_shared<GroupState>();
  state->name = request.name;
  state->ranks = request.ranks;
  state->backend = request.backend;
  return state;
}

void stay_out_of(const GroupRequest& request) {
  for (const DeviceBackend& one : parse_device_backends(request.backend)) {
    const auto parent = parent_of(request, one);
    if (parent) traits_of(*parent).stay_out_of_split(*parent, *request.device);
  }
}

std::shared_ptr<GroupState> make_group(const GroupRequest& request) {
  auto group = connect(request);
  c10d::register_process_group(request.name, group);

  auto state = std::make_shared<GroupState>();
  state->name = request.name;
  state->ranks = request.ranks;
  state->backend = request.backend;
  if (has_cpu_backend(*group)) {
    state->direct_calls = dynamic_cast<DirectCalls*>(group->getBackend(at::kCPU).get());
  }
  state->process_group = std::move(group);
  state->is_member = true;
  state->timeout = request.timeout;
  state->maker = std::this_thread::get_id();
  return state;
}

}  // namespace distrun::internal
