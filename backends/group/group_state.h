// What is known of a group, and of all groups of this process.  For the files of this folder.
#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <unistd.h>

#include "distrun/group.h"

namespace distrun::internal {

struct GroupState {
  std::string name;        // "0" is the default group, others have the next numbers.
  std::vector<int> ranks;  // Global ones, by group rank.
  std::string backend;     // "gloo", or "cpu:gloo,cuda:fake"
  // None: this rank is not in the group, or it has been destroyed.
  c10::intrusive_ptr<c10d::ProcessGroup> process_group;
  bool is_member = false;
  std::thread::id maker;
  const pid_t process = ::getpid();  // That made it: a forked one cannot use it.
  std::atomic<std::chrono::milliseconds> timeout{};
  std::atomic<bool> is_aborted = false;
  // What nobody has waited for and would be abandoned if it were dropped: half a message makes a
  // connection useless.  Held until it has ended or the group is freed.
  std::mutex under_way_mutex;
  std::vector<c10::intrusive_ptr<c10d::Work>> under_way;
  std::size_t sweep_at = 16;  // As many under way: those that have ended are let go.

  GroupState() = default;
  GroupState(const GroupState&) = delete;
  GroupState& operator=(const GroupState&) = delete;
  // On another thread than the maker's, which may be the backend's own, LibTorch's group goes
  // later: it waits there for that thread to end.
  ~GroupState();

  void hold(c10::intrusive_ptr<c10d::Work> work);

  // Idempotent.
  void free();
};

// What a Group holds; null in that of the default group.
struct GroupAccess {
  static Group make(std::shared_ptr<GroupState> state) { return Group(std::move(state)); }
  static const std::shared_ptr<GroupState>& state(const Group& group) { return group.state_; }
};

// The default group and what subgroups are made from.
struct World {
  std::shared_ptr<GroupState> group;
  c10::intrusive_ptr<c10d::Store> store;  // The default group's; those of others lie in it.
  int groups_numbered = 0;                // Of this world, the default group included.
  std::map<std::vector<int>, int> groups_by_ranks;  // That only their members have agreed upon.
  std::vector<std::weak_ptr<GroupState>> groups;    // In the order in which they were made.
};

// Null before init_process_group() and after destroy_process_group().  Never destroyed at exit:
// threads of backends may still run there.
World*& world();

// The state of a group, the default one's too.  Throws where there is none.
GroupState& state_of(const Group& group);

// "group 1 of ranks 0, 1", "the default group": for messages.
std::string describe(const Group& group);

}  // namespace distrun::internal
