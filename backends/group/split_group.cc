#include "distrun/split_group.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include <c10/util/Exception.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "backends/group/collective_checks.h"
#include "backends/group/device_backends.h"
#include "backends/group/group_ends.h"
#include "backends/group/group_state.h"
#include "backends/group/make_group.h"
#include "common/text/words.h"

namespace distrun {

namespace {

using internal::CallSite;
using internal::Described;
using internal::GroupAccess;
using internal::GroupRequest;
using internal::GroupState;
using internal::World;
using Lists = std::vector<std::vector<int>>;

void check_ranks(const CallSite& site, const std::vector<int>& ranks) {
  std::vector<int> sorted = ranks;
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  site.check(twice == sorted.end(), "group rank ", twice == sorted.end() ? 0 : *twice,
             " is listed twice");
  for (const int rank : sorted) {
    site.check(0 <= rank && rank < site.size(), "group rank ", rank, " is not in ",
               Described{site.group}, "; expected 0 to ", site.size() - 1);
  }
}

void check_split(const CallSite& site, const Lists& lists) {
  site.check(!lists.empty(), "the list of groups is empty");
  std::vector<int> all;
  for (const auto& list : lists) {
    site.check(!list.empty(), "one of the lists of ranks is empty");
    all.insert(all.end(), list.begin(), list.end());
  }
  check_ranks(site, all);
}

void check_shrink(const CallSite& site, const std::vector<int>& excluded) {
  site.check(!excluded.empty(), "the list of ranks to exclude is empty");
  check_ranks(site, excluded);
  site.check(std::find(excluded.begin(), excluded.end(), site.rank()) == excluded.end(),
             "this rank is in the list of ranks to exclude; only the remaining ranks call it");
}

// The backends of the parent, or those of them that the options name.
std::string backend_of_split(const CallSite& site, const std::string& wanted) {
  std::string of_parent = get_backend(site.group);
  if (wanted.empty()) return of_parent;
  const auto has = parse_device_backends(of_parent);
  for (const DeviceBackend& one : parse_device_backends(wanted)) {
    site.check(std::find(has.begin(), has.end(), one) != has.end(), Described{site.group},
               " has no backend '", one.backend, "' for ", one.device, "; it has ",
               get_backend_config(site.group));
  }
  return ascii_lower(wanted);
}

// Ascending, as in new_group().
std::vector<int> global_ranks_of(const Group& group, std::vector<int> group_ranks) {
  std::sort(group_ranks.begin(), group_ranks.end());
  const auto& all = internal::state_of(group).ranks;
  std::vector<int> ranks;
  ranks.reserve(group_ranks.size());
  for (const int rank : group_ranks) ranks.push_back(all[static_cast<std::size_t>(rank)]);
  return ranks;
}

// The list that this rank is in. Empty if there is none.
std::optional<std::size_t> own_list(const Lists& lists, int rank) {
  for (std::size_t i = 0; i < lists.size(); ++i) {
    if (std::find(lists[i].begin(), lists[i].end(), rank) != lists[i].end()) return i;
  }
  return std::nullopt;
}

std::vector<int> remaining(const CallSite& site, const std::vector<int>& excluded) {
  std::vector<int> ranks;
  for (int rank = 0; rank < site.size(); ++rank) {
    if (std::find(excluded.begin(), excluded.end(), rank) == excluded.end()) ranks.push_back(rank);
  }
  return ranks;
}

int place_of(const std::vector<int>& ranks, int rank) {
  return static_cast<int>(std::find(ranks.begin(), ranks.end(), rank) - ranks.begin());
}

// Its name is new to the store, and to LibTorch's registry of groups.
std::string next_name(GroupState& group, const char* kind) {
  return c10::str(group.name, ":", kind, group.derived++);
}

// The new default group gets an own part of the store, because the names of its subgroups and its
// ranks start anew.
void replace_default_group(World& world, std::shared_ptr<GroupState> made) {
  const auto old = internal::groups_of(world);
  for (const auto& group : old) {
    if (group != world.group) internal::abort_group(*group);
  }
  // An error of a group whose ranks have failed is none of the new group's.
  for (const auto& group : old) static_cast<void>(internal::shut_down(*group));
  const std::string prefix = made->name;
  world = {.group = std::move(made),
           .store = c10::make_intrusive<c10d::PrefixStore>(prefix, world.store),
           .groups_numbered = 1,
           .groups_by_ranks = {},
           .groups = {}};
  for (const auto& group : old) group->free();
}

}  // namespace

Group split_group(const Lists& split_ranks, const Group& parent, const GroupOptions& options) {
  const CallSite site{"split_group", parent};
  c10d::ProcessGroup& from = *parent.process_group();
  GroupState& state = internal::state_of(parent);
  check_split(site, split_ranks);
  GroupRequest request{.description = options.name,
                       .backend = backend_of_split(site, options.backend),
                       .timeout = options.timeout.value_or(state.timeout),
                       .backend_options = options.backend_options,
                       .device = from.getBoundDeviceId(),
                       .split_from = &from,
                       .store = internal::the_world().store};
  site.check(request.timeout.count() > 0, "the timeout is ", request.timeout.count(),
             " ms; expected more than 0");
  internal::check_backends(request.backend, request.backend_options);
  const auto own = own_list(split_ranks, site.rank());
  const std::size_t which = own.value_or(0);
  request.name = next_name(state, "split") + "." + std::to_string(which);
  request.ranks = global_ranks_of(parent, split_ranks[which]);
  if (!own) {
    internal::stay_out_of(request);
    return GroupAccess::make(internal::outside_of(request));
  }
  request.rank = place_of(request.ranks, get_rank());
  auto made = internal::make_group(request);
  internal::add_to(internal::the_world(), made);
  return GroupAccess::make(std::move(made));
}

Group shrink_group(const std::vector<int>& ranks_to_exclude, const Group& group,
                   const ShrinkOptions& options) {
  const CallSite site{"shrink_group", group};
  c10d::ProcessGroup& old = *group.process_group();
  GroupState& state = internal::state_of(group);
  World& world = internal::the_world();
  const bool is_default = &state == world.group.get();
  check_shrink(site, ranks_to_exclude);
  internal::check_backends(state.backend, options.backend_options);
  const std::vector<int> ranks = remaining(site, ranks_to_exclude);
  std::vector<std::int64_t> without(ranks_to_exclude.begin(), ranks_to_exclude.end());
  std::sort(without.begin(), without.end());
  GroupRequest request{.name = next_name(state, "shrunk"),
                       .description = old.getGroupDesc(),
                       .rank = place_of(ranks, site.rank()),
                       .backend = state.backend,
                       .timeout = state.timeout,
                       .backend_options = options.backend_options,
                       .device = old.getBoundDeviceId(),
                       .shrink = internal::Shrink{&old, std::move(without), options.abort},
                       .store = world.store};
  if (is_default) {
    request.ranks.resize(ranks.size());
    std::iota(request.ranks.begin(), request.ranks.end(), 0);
  } else {
    request.ranks = global_ranks_of(group, ranks);
  }
  if (options.abort) {
    state.is_aborted = true;
    internal::abort_before_shrink(request);
  }
  auto made = internal::make_group(request);
  if (is_default) {
    replace_default_group(world, std::move(made));
    return {};
  }
  static_cast<void>(internal::shut_down(state));  // Its error is none of the new group's.
  state.free();
  internal::add_to(world, made);
  return GroupAccess::make(std::move(made));
}

}  // namespace distrun
