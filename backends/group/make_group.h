// Makes the c10d::ProcessGroup of a group, and its backends.  For the files of this folder.
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
  std::vector<int> ranks;  // Global ones, by group rank.
  int rank = 0;            // This one's, within the group.
  std::string backend;
  std::chrono::milliseconds timeout = std::chrono::minutes(30);
  BackendOptions backend_options;
  c10::intrusive_ptr<c10d::Store> store;  // The group's keys lie under its name.
};

// Of a rank that is in the group.  Returns when its members have met; throws what they throw.
std::shared_ptr<GroupState> make_group(const GroupRequest& request);

// Throws c10::ValueError where "cpu:gloo,cuda:fake" is malformed, or names what is not registered
// or two that were, and c10::TypeError where the options are not those of a backend.
void check_backends(const std::string& backends, const BackendOptions& options);

}  // namespace distrun::internal
