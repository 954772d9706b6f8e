// The state of a group, and of all groups of this process.
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

class DirectCalls;

struct GroupState {
  std::string name;        // "0" for the default group, then "1", …, or "local_1_2#0".
  std::vector<int> ranks;  // Global ranks, by group rank.
  std::string backend;     // "gloo", or "cpu:gloo,cuda:fake"
  // Null if this rank is not in the group, or the group is destroyed.
  c10::intrusive_ptr<c10d::ProcessGroup> process_group;
  DirectCalls* direct_calls = nullptr;  // Of the backend for the CPU, if it has any.
  bool is_member = false;
  std::thread::id maker;
  int derived = 0;  // Calls of split_group() and shrink_group() for this group: part of names.
  const pid_t process = ::getpid();  // The creator: a forked child cannot use the group.
  std::atomic<std::chrono::milliseconds> timeout{};
  std::atomic<bool> is_aborted = false;
  // Works without a wait(). Dropping one would leave half a message and break the connection, so
  // they are kept until they end or the group is freed.
  std::mutex under_way_mutex;
  std::vector<c10::intrusive_ptr<c10d::Work>> under_way;
  std::size_t sweep_at = 16;  // At this size hold() removes ended works.

  GroupState() = default;
  GroupState(const GroupState&) = delete;
  GroupState& operator=(const GroupState&) = delete;
  // On another thread than the creator's, frees LibTorch's group later: it may be a backend's own
  // thread, whose end the group waits for.
  ~GroupState();

  void hold(c10::intrusive_ptr<c10d::Work> work);

  // Idempotent.
  void free();

 private:
  friend class BorrowedGroup;
  std::mutex free_mutex_;
};

// Keeps LibTorch's group for a moment, on a thread of a backend. Lets go of it on another thread:
// it may be the last reference, and the group waits for the end of the backend's threads.
class BorrowedGroup {
 public:
  explicit BorrowedGroup(GroupState& state);
  ~BorrowedGroup();
  BorrowedGroup(const BorrowedGroup&) = delete;
  BorrowedGroup& operator=(const BorrowedGroup&) = delete;

  // Null if the group is destroyed.
  c10d::ProcessGroup* get() const { return group_.get(); }

 private:
  c10::intrusive_ptr<c10d::ProcessGroup> group_;
};

// Access to a Group's state, which is null for the default group.
struct GroupAccess {
  static Group make(std::shared_ptr<GroupState> state) { return Group(std::move(state)); }
  static const std::shared_ptr<GroupState>& state(const Group& group) { return group.state_; }
};

// The default group, and the state for creating other groups.
struct World {
  std::shared_ptr<GroupState> group;
  c10::intrusive_ptr<c10d::Store> store;  // The default group's, with the keys of all groups.
  int groups_numbered = 0;                // In this world, including the default group.
  std::map<std::vector<int>, int> groups_by_ranks;  // Created by their members only.
  std::vector<std::weak_ptr<GroupState>> groups;    // In order of creation.
};

// Null before init_process_group() and after destroy_process_group(). Not destroyed at exit,
// because threads of backends may still run.
World*& world();

// The world. Throws c10::Error if there is none.
World& the_world();

// Adds a new group to those that destroy_process_group() ends.
void add_to(World& world, const std::shared_ptr<GroupState>& group);

// The state of a group, including the default group.  Throws if there is none.
GroupState& state_of(const Group& group);

// "group 1 of ranks 0, 1", "the default group": for messages.
std::string describe(const Group& group);

}  // namespace distrun::internal
