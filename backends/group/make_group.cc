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

#include "backends/group/device_backends.h"
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
      .options = options};
  const RegisteredBackend& registered = find_backend(which.backend);
  auto backend = registered.make(request);
  TORCH_CHECK(backend, "the maker of backend '", which.backend,
              "' returned null; expected a backend");
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
  // Devices with the same backend share one object, created for the first device, as in Python.
  std::map<std::string, c10::intrusive_ptr<c10d::Backend>> made;
  for (const DeviceBackend& one : backends) {
    auto& backend = made[one.backend];
    if (!backend) backend = make_backend(request, one, store);
    group->setBackend(one.device, ProcessGroup::strToBackendType(one.backend), backend);
  }
  return group;
}

// Adds the group to errors: if ranks are missing, a backend names at most their group ranks.
c10::intrusive_ptr<ProcessGroup> connect(const GroupRequest& request) {
  const auto whose = [&] {
    const int rank = request.ranks[static_cast<std::size_t>(request.rank)];
    return c10::str("rank ", rank, " creates group ", request.name, " of ",
                    list_of_ranks(request.ranks));
  };
  try {
    return with_backends(request);
  } catch (c10::Error& error) {
    error.add_context(whose());
    throw;
  } catch (const std::exception& error) {
    TORCH_CHECK_WITH(DistBackendError, false, error.what(), " (", whose(), ")");
  }
}

}  // namespace

void check_backends(const std::string& backends, const BackendOptions& options) {
  std::set<std::string> registered;
  for (const DeviceBackend& one : parse_device_backends(backends)) {
    find_backend(one.backend).traits->check_options(options);
    if (is_custom(one.backend)) registered.insert(one.backend);
  }
  // ProcessGroup has a single slot for backends whose names LibTorch does not know.
  TORCH_CHECK_VALUE(registered.size() <= 1, "the backend '", backends,
                    "' names two registered backends; LibTorch supports one per group");
}

std::shared_ptr<GroupState> make_group(const GroupRequest& request) {
  auto group = connect(request);
  group->setGroupName(request.name);
  group->setGroupDesc(request.description);
  c10d::register_process_group(request.name, group);

  auto state = std::make_shared<GroupState>();
  state->name = request.name;
  state->ranks = request.ranks;
  state->backend = request.backend;
  state->process_group = std::move(group);
  state->is_member = true;
  state->timeout = request.timeout;
  state->maker = std::this_thread::get_id();
  return state;
}

}  // namespace distrun::internal
