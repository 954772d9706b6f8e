// Creates the c10d::ProcessGroup of a group, with its backends.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "backends/group/group_state.h"

namespace distrun::internal {

struct GroupRequest {
  std::string name, description;
  std::vector<int> ranks;  // Global ranks, by group rank.
  int rank = 0;            // The group rank of this process.
  std::string backend;
  std::chrono::milliseconds timeout = std::chrono::minutes(30);
  BackendOptions backend_options;
  c10::intrusive_ptr<c10d::Store> store;  // The group's keys start with its name.
};

// Requires that this rank is in the group. Returns when it has connected to all members; throws the
// backends' errors.
std::shared_ptr<GroupState> make_group(const GroupRequest& request);

// Throws c10::ValueError for a malformed text or an unregistered backend, and c10::TypeError for
// options of another backend.
void check_backends(const std::string& backends, const BackendOptions& options);

}  // namespace distrun::internal
