// Creates the c10d::ProcessGroup of a group, with its backends.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <c10/core/Device.h>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "backends/group/group_state.h"

namespace distrun::internal {

// A group that loses ranks. Its backends that support it shrink; others connect anew.
struct Shrink {
  c10d::ProcessGroup* group = nullptr;
  std::vector<std::int64_t> without = {};  // Group ranks, in ascending order.
  bool abort = false;                      // Whether operations in progress are given up.
};

struct GroupRequest {
  std::string name, description;
  std::vector<int> ranks;  // Global ranks, by group rank.
  int rank = 0;            // The group rank of this process.
  std::string backend;
  std::chrono::milliseconds timeout = std::chrono::minutes(30);
  BackendOptions backend_options;
  std::optional<c10::Device> device = std::nullopt;  // InitOptions::device_id
  // The group that backends of the new group may be split from.
  c10d::ProcessGroup* split_from = nullptr;
  // The group that the new one replaces.
  std::optional<Shrink> shrink = std::nullopt;
  c10::intrusive_ptr<c10d::Store> store;  // The group's keys start with its name.
};

// Requires that this rank is in the group. Returns when it has connected to all members; throws the
// backends' errors.
std::shared_ptr<GroupState> make_group(const GroupRequest& request);

// The state of a group that this rank is not in.
std::shared_ptr<GroupState> outside_of(const GroupRequest& request);

// To be called on ranks that are not in the group: a split needs all ranks of the split group.
void stay_out_of(const GroupRequest& request);

// Aborts the backends of `shrink.group` that cannot shrink. The others abort when they shrink.
void abort_before_shrink(const GroupRequest& request);

// Throws c10::ValueError for a malformed text, an unregistered backend or a device that has none of
// the backends, and c10::TypeError for options of another backend.
void check_backends(const std::string& backends, const BackendOptions& options,
                    const std::optional<c10::Device>& device = std::nullopt);

}  // namespace distrun::internal
