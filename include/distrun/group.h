// Group refers to a process group.  The process group is either the default group, which has all
// ranks of the run, or a group from new_group().
//
//     Group pair = new_group({0, 1});
//     if (pair.is_member()) all_reduce(tensor, ReduceOp::SUM, {.group = pair});
//     all_reduce(tensor);                                  // Group(), the default group.
//
// Copies are cheap and refer to the same group.  A group that new_group() created is freed when the
// last copy of its Group is destroyed.  destroy_process_group(group) frees the group earlier.  A
// Work and a DistributedDataParallel contain a copy of their Group.  destroy_process_group()
// without an argument frees all groups, including the default group.  Communication in a destroyed
// group throws.
//
// new_group() returns when this rank has connected to the other members.  The other members may
// still be connecting to each other.  If you free the group while the other members still connect,
// new_group() can throw on them.  To avoid this, call barrier({.group = pair}) before you free the
// group.
//
// As in torch.distributed, new_group() also returns a Group on ranks outside the group.  On such a
// rank, collectives with this Group print a warning and do nothing.
//
// Blocks: on the thread that created the group, the destructor of the last copy waits for the
// group's collectives that are in progress on this rank.  On other threads, the destructor returns
// at once, and a background thread waits instead.  At its exit, the process waits for this
// background thread.
// Thread safety: any thread may copy, use and destroy a Group.  Run the collectives of a group on
// one thread at a time.
#pragma once

#if __cplusplus < 202002L
#error "distrun needs C++20: compile with -std=c++20"
#endif

#include <concepts>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <c10/util/intrusive_ptr.h>

namespace c10d {
class Backend;
class ProcessGroup;
}  // namespace c10d

namespace distrun {

namespace internal {

struct GroupState;
struct GroupAccess;

// `Backend` is a template parameter because c10d::Backend is incomplete here.
template <class T, class Backend = c10d::Backend>
concept IsBackendOptions = std::derived_from<T, typename Backend::Options>;

}  // namespace internal

class Group {
 public:
  // Creates a Group that refers to the default group.  The default group need not exist yet,
  // because each use looks it up.
  Group() = default;

  // Returns whether this object, or the one it was copied from, was created by Group().
  bool is_default() const { return !state_; }

  // Returns whether this rank is in the group.  For a group from new_group(), is_member() still
  // works after the group was destroyed.
  //
  // Throws: c10::Error if this object refers to the default group, and the default group does not
  // exist.
  bool is_member() const;

  // Returns LibTorch's object of the group.  Use it, for example, to call a function that distrun
  // does not have.  Include <torch/csrc/distributed/c10d/ProcessGroup.hpp> for this.
  //
  // Throws: c10::Error if this rank is not a member, or if the group was destroyed.
  // Also throws c10::Error if this object refers to the default group, and the default group does
  // not exist.
  const c10::intrusive_ptr<c10d::ProcessGroup>& process_group() const;
  // Calls a method of process_group(), as in group->getRank().
  c10d::ProcessGroup* operator->() const { return process_group().get(); }

  // Returns whether both objects refer to the same group.
  friend bool operator==(const Group&, const Group&) = default;

 private:
  friend struct internal::GroupAccess;
  explicit Group(std::shared_ptr<internal::GroupState> state) : state_(std::move(state)) {}

  std::shared_ptr<internal::GroupState> state_;
};

// BackendOptions contains a pointer to the options of a backend, or is empty.  The class of the
// options must derive from c10d::Backend::Options.
//
//     init_process_group({.backend_options = c10d::ProcessGroupGloo::Options::create_default()});
//
// With pointers to other classes, the program does not compile.  If "gloo" or "fake" gets the
// options of another backend, the creation of the group throws c10::TypeError.  A registered
// backend (backend_registry.h) must check BackendRequest::options itself.
class BackendOptions {
 public:
  BackendOptions() = default;

  // Stores these options.  The conversion is implicit, so callers can pass a pointer in place of a
  // BackendOptions.
  template <internal::IsBackendOptions Options>
  BackendOptions(c10::intrusive_ptr<Options> options)  // NOLINT(google-explicit-constructor)
      : options_(std::move(options)) {}

  // Returns the pointer to the options, or null if this object is empty.
  const c10::intrusive_ptr<c10::intrusive_ptr_target>& pointer() const { return options_; }

 private:
  c10::intrusive_ptr<c10::intrusive_ptr_target> options_;
};

// A rank within a group, as group_src and group_dst in torch.distributed.  In contrast, an int
// that you pass as the source or destination of a collective is a global rank.
//
//     broadcast(tensor, GroupRank(0), {.group = pair});
class GroupRank {
 public:
  // Does not check the value.
  constexpr explicit GroupRank(int value) : value_(value) {}
  // Returns the group rank.
  constexpr int value() const { return value_; }

 private:
  int value_;
};

// A global rank or a group rank.
class AnyRank {
 public:
  // Converts from a global rank or a group rank.
  constexpr AnyRank(int global) : value_(global), of_group_(false) {}           // NOLINT
  constexpr AnyRank(GroupRank rank) : value_(rank.value()), of_group_(true) {}  // NOLINT
  // Returns the global rank or the group rank.
  constexpr int value() const { return value_; }
  // Returns whether value() is a group rank.
  constexpr bool is_of_group() const { return of_group_; }

 private:
  int value_;
  bool of_group_;
};

}  // namespace distrun
