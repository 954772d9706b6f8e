#include "distrun/process_group.h"

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <numeric>

#include <c10/core/Device.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>
#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/debug.h>
#include <unistd.h>

#include "backends/group/collective_checks.h"
#include "backends/group/device_backends.h"
#include "backends/group/group_ends.h"
#include "backends/group/group_state.h"
#include "backends/group/init_rendezvous.h"
#include "backends/group/make_group.h"
#include "backends/group/operation_recorder.h"
#include "common/text/words.h"

namespace distrun {

namespace {

using internal::abort_group;
using internal::GroupAccess;
using internal::GroupRequest;
using internal::groups_of;
using internal::GroupState;
using internal::shut_down;
using internal::the_world;
using internal::World;
using internal::world;

// Prefixes and name of the default group in the store: torch.distributed's, except kDryRunPrefix.
constexpr const char* kDefaultGroupPrefix = "default_pg";
constexpr const char* kDryRunPrefix = "dry_run";
constexpr const char* kDefaultGroupName = "0";

// A new default group must not read the keys of the previous one, which hold addresses of closed
// sockets. Dry runs have their own counter, because other ranks do not know of them.
int worlds_made = 0;
int dry_runs_made = 0;

std::string store_prefix(bool is_dry_run) {
  const std::string prefix = is_dry_run ? kDryRunPrefix : kDefaultGroupPrefix;
  const int made = is_dry_run ? dry_runs_made : worlds_made;
  return made == 0 ? prefix : prefix + "#" + std::to_string(made);
}

// The Python recorder uses the same suffix: "@2" for the second default group.
std::string recorded_suffix(bool is_dry_run) {
  if (is_dry_run) return "@dry_run";
  return worlds_made == 0 ? "" : "@" + std::to_string(worlds_made + 1);
}

std::vector<int> all_ranks(int size) {
  std::vector<int> ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

void check_timeout(const char* function, std::chrono::milliseconds timeout) {
  TORCH_CHECK_VALUE(timeout.count() > 0, function, ": the timeout is ", timeout.count(),
                    " ms; expected more than 0");
}

// Sorts the ranks.
std::vector<int> checked_ranks(std::vector<int> ranks, int rank, int world_size) {
  TORCH_CHECK_VALUE(!ranks.empty(), "new_group on rank ", rank,
                    ": the list of ranks is empty; expected a rank, or std::nullopt for all");
  std::sort(ranks.begin(), ranks.end());
  TORCH_CHECK_VALUE(0 <= ranks.front() && ranks.back() < world_size, "new_group on rank ", rank,
                    ": rank ", ranks.front() < 0 ? ranks.front() : ranks.back(),
                    " is out of range; expected 0 to ", world_size - 1);
  const auto twice = std::adjacent_find(ranks.begin(), ranks.end());
  TORCH_CHECK_VALUE(twice == ranks.end(), "new_group on rank ", rank, ": rank ",
                    twice == ranks.end() ? 0 : *twice, " is listed twice");
  return ranks;
}

// If every rank creates every group, a counter gives all ranks the same name. If only members
// create it, the name consists of their ranks and the number of such groups so far, which they
// share.
std::string next_group_name(World& all, const std::vector<int>& ranks, bool local) {
  if (!local) return std::to_string(all.groups_numbered++);
  std::string name = "local";
  for (const int rank : ranks) name += "_" + std::to_string(rank);
  return name + "#" + std::to_string(all.groups_by_ranks[ranks]++);
}

// In a forked process, leaks the parent's groups: the threads that would free them do not exist
// here.
void abandon_groups_of_parent() {
  if (!is_initialized() || world()->group->process == ::getpid()) return;
  auto groups = std::make_unique<std::vector<std::shared_ptr<GroupState>>>(groups_of(*world()));
  for (const auto& group : *groups) c10d::unregister_process_group(group->name);
  static_cast<void>(groups.release());
  world() = nullptr;
}

// Without a GPU of this kind, the backend has its own error.
void select_device(const c10::Device& device) {
  if (!c10::impl::hasDeviceGuardImpl(device.type())) return;
  const c10::impl::VirtualGuardImpl driver(device.type());
  const c10::DeviceIndex count = driver.deviceCount();
  if (count == 0) return;
  TORCH_CHECK_VALUE(device.index() < count, "device_id is ", device,
                    ", and the number of visible GPUs is ", int{count});
  driver.setDevice(device);
}

}  // namespace

void init_process_group(const InitOptions& options) {
  abandon_groups_of_parent();
  TORCH_CHECK(!is_initialized(), "init_process_group: the process group is already initialized");
  const std::string backend = ascii_lower(options.backend);
  // Before it waits.
  internal::check_backends(backend, options.backend_options, options.device_id);
  if (options.device_id) select_device(*options.device_id);
  const auto timeout = internal::timeout_of(options);
  check_timeout("init_process_group", timeout);
  if (std::getenv("TORCH_DISTRIBUTED_DEBUG") != nullptr) c10d::setDebugLevelFromEnvironment();
  const auto [found, is_dry_run] = internal::init_rendezvous(options, Environment::from(environ));
  internal::record_operations(recorded_suffix(is_dry_run));
  auto made = std::make_unique<World>();
  made->group = internal::make_group(
      {.name = kDefaultGroupName,
       .description = kDefaultGroupPrefix,
       .ranks = all_ranks(found.world_size),
       .rank = found.rank,
       .backend = backend,
       .timeout = timeout,
       .backend_options = options.backend_options,
       .device = options.device_id,
       .store = c10::make_intrusive<c10d::PrefixStore>(store_prefix(is_dry_run), found.store)});
  made->store = made->group->process_group->getStore();
  made->groups_numbered = 1;
  world() = made.release();
  ++(is_dry_run ? dry_runs_made : worlds_made);
}

void destroy_process_group() {
  if (the_world().group->process != ::getpid()) return abandon_groups_of_parent();
  const auto groups = groups_of(the_world());
  std::exception_ptr error;
  for (const auto& group : groups) {
    if (const auto its = shut_down(*group); !error) error = its;
  }
  delete std::exchange(world(), nullptr);
  for (const auto& group : groups) group->free();
  if (error) std::rethrow_exception(error);
}

void destroy_process_group(const Group& group) {
  if (group.is_default()) return destroy_process_group();
  GroupState& state = *GroupAccess::state(group);
  const auto error = shut_down(state);
  state.free();
  if (error) std::rethrow_exception(error);
}

void abort_process_group() {
  for (const auto& group : groups_of(the_world())) abort_group(*group);
}

void abort_process_group(const Group& group) {
  if (group.is_default()) return abort_process_group();
  abort_group(*GroupAccess::state(group));
}

bool is_initialized() { return world() != nullptr; }

c10d::ProcessGroup& default_group() { return *Group().process_group(); }

int get_rank(const Group& group) { return group.is_member() ? group->getRank() : -1; }

int get_world_size(const Group& group) { return group.is_member() ? group->getSize() : -1; }

std::string get_backend(const Group& group) { return internal::state_of(group).backend; }

std::string get_backend_config(const Group& group) {
  std::string config;
  for (const DeviceBackend& one : parse_device_backends(get_backend(group))) {
    config += (config.empty() ? "" : ",") + c10::DeviceTypeName(one.device, /*lower_case=*/true) +
              ":" + one.backend;
  }
  return config;
}

std::vector<int> get_process_group_ranks(const Group& group) {
  return internal::state_of(group).ranks;
}

int get_group_rank(const Group& group, int global_rank) {
  return internal::group_rank_of("get_group_rank", group, global_rank);
}

int get_global_rank(const Group& group, int group_rank) {
  const int index = internal::group_rank_of("get_global_rank", group, GroupRank(group_rank));
  return internal::state_of(group).ranks[static_cast<std::size_t>(index)];
}

void set_timeout(std::chrono::milliseconds timeout, const Group& group) {
  check_timeout("set_timeout", timeout);
  group->setTimeout(timeout);
  internal::state_of(group).timeout = timeout;
}

Group new_group(std::optional<std::vector<int>> ranks, const GroupOptions& options) {
  World& all = the_world();
  const int rank = get_rank();
  GroupRequest request{
      .description = options.name,
      .ranks = ranks ? checked_ranks(std::move(*ranks), rank, get_world_size())
                     : all_ranks(get_world_size()),
      .backend = options.backend.empty() ? all.group->backend : ascii_lower(options.backend),
      .timeout = options.timeout.value_or(all.group->timeout),
      .backend_options = options.backend_options,
      .device = all.group->process_group->getBoundDeviceId(),
      // A split needs all ranks.
      .split_from = options.use_local_synchronization ? nullptr : all.group->process_group.get(),
      .store = all.store};
  check_timeout("new_group", request.timeout);
  // Ranks outside the group check too.
  internal::check_backends(request.backend, request.backend_options);
  const auto place = std::find(request.ranks.begin(), request.ranks.end(), rank);
  const bool is_member = place != request.ranks.end();
  request.name = next_group_name(all, request.ranks, options.use_local_synchronization);
  if (!is_member) {
    internal::stay_out_of(request);
    return GroupAccess::make(internal::outside_of(request));
  }
  request.rank = static_cast<int>(place - request.ranks.begin());
  auto state = internal::make_group(request);
  add_to(all, state);
  return GroupAccess::make(std::move(state));
}

Group new_group(std::initializer_list<int> ranks, const GroupOptions& options) {
  return new_group(std::vector<int>(ranks), options);
}

Subgroups new_subgroups(int group_size, const Group& group, const GroupOptions& options) {
  const std::vector<int> ranks = get_process_group_ranks(group);
  const int size = static_cast<int>(ranks.size());
  TORCH_CHECK_VALUE(group_size > 0 && size % group_size == 0, "new_subgroups on rank ", get_rank(),
                    ": cannot divide ", size, " ranks into groups of ", group_size);
  std::vector<std::vector<int>> parts;
  for (auto first = ranks.begin(); first != ranks.end(); first += group_size) {
    parts.emplace_back(first, first + group_size);
  }
  return new_subgroups_by_enumeration(parts, options);
}

Subgroups new_subgroups_by_enumeration(const std::vector<std::vector<int>>& ranks,
                                       const GroupOptions& options) {
  TORCH_CHECK_VALUE(!ranks.empty(), "new_subgroups_by_enumeration: the list of groups is empty");
  std::vector<int> all;
  for (const auto& part : ranks) all.insert(all.end(), part.begin(), part.end());
  std::sort(all.begin(), all.end());
  const auto twice = std::adjacent_find(all.begin(), all.end());
  TORCH_CHECK_VALUE(twice == all.end(), "new_subgroups_by_enumeration on rank ", get_rank(),
                    ": rank ", twice == all.end() ? 0 : *twice, " is in two of the groups");
  Subgroups made;
  for (const auto& part : ranks) {
    made.all.push_back(new_group(part, options));
    if (made.all.back().is_member()) made.own = made.all.back();
  }
  return made;
}

}  // namespace distrun
