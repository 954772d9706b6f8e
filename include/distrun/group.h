// Group is a handle to a process group: the default group, which has all ranks of the run, or a
// group that new_group() created.
//
//     Group pair = new_group({0, 1});
//     if (pair.is_member()) all_reduce(tensor, ReduceOp::SUM, {.group = pair});
//     all_reduce(tensor);                                  // Group(), the default group.
//
// Copies are cheap and refer to the same group.  A group that new_group() created is freed when the
// last copy of its Group is destroyed, or earlier by destroy_process_group(group).
// destroy_process_group() without an argument frees all groups, including the default group.  A
// Work and a DistributedDataParallel hold a copy of their Group.  Communication in a destroyed
// group throws.
//
// new_group() returns when this rank has connected to the other members.  These may still be
// connecting to each other.  If you free the group before that, their new_group() can throw.  Call
// barrier({.group = pair}) first: it waits until all members have connected.
//
// As in torch.distributed, new_group() also returns a Group on ranks outside the group.
// Collectives with such a Group print a warning and do nothing.
//
// Thread safety: any thread may copy, use and drop a Group; run a group's collectives on one thread
// at a time.
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

// Backend is a parameter so that it may be incomplete here.
template <class T, class Backend = c10d::Backend>
concept IsBackendOptions = std::derived_from<T, typename Backend::Options>;

}  // namespace internal

class Group {
 public:
  // Creates a Group that stands for the default group, which it looks up at each use.
  Group() = default;

  // Returns whether this object was created by Group(), and so stands for the default group.
  bool is_default() const { return !state_; }

  // Returns whether this rank is in the group.  For a group of new_group(), it also works after the
  // group was destroyed.
  //
  // Throws: c10::Error if this is the default group and none exists.
  bool is_member() const;

  // Returns LibTorch's group.  Use it to call functions that distrun does not have.  Include
  // <torch/csrc/distributed/c10d/ProcessGroup.hpp>.
  //
  // Throws: c10::Error if the group was destroyed, if it is the default group and does not exist,
  // or if this rank is not a member.
  const c10::intrusive_ptr<c10d::ProcessGroup>& process_group() const;
  // Accesses process_group().
  c10d::ProcessGroup* operator->() const { return process_group().get(); }

  // Returns whether both are Group(), or both are copies of the same other Group.
  friend bool operator==(const Group&, const Group&) = default;

 private:
  friend struct internal::GroupAccess;
  explicit Group(std::shared_ptr<internal::GroupState> state) : state_(std::move(state)) {}

  std::shared_ptr<internal::GroupState> state_;
};

// The options of one backend, or nothing.  The backend's own class of options derives from
// c10d::Backend::Options.
//
//     init_process_group({.backend_options = c10d::ProcessGroupGloo::Options::create_default()});
//
// Other types do not compile.  If the options are those of another backend, "gloo" and "fake" throw
// c10::TypeError when the group is created.  A backend that you register must check
// BackendRequest::options itself.
class BackendOptions {
 public:
  BackendOptions() = default;

  // Holds these options.  The conversion is implicit, so that callers need not write
  // BackendOptions.
  template <internal::IsBackendOptions Options>
  BackendOptions(c10::intrusive_ptr<Options> options)  // NOLINT(google-explicit-constructor)
      : options_(std::move(options)) {}

  // Returns the options, or null.
  const c10::intrusive_ptr<c10::intrusive_ptr_target>& pointer() const { return options_; }

 private:
  c10::intrusive_ptr<c10::intrusive_ptr_target> options_;
};

// A rank within its group: group_src and group_dst in torch.distributed.  A plain int is a global
// rank.
//
//     broadcast(tensor, GroupRank(0), {.group = pair});
class GroupRank {
 public:
  // Does not check the value.
  constexpr explicit GroupRank(int value) : value_(value) {}
  // Returns the number.
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
  // Returns the number.
  constexpr int value() const { return value_; }
  // Returns whether it is a group rank.
  constexpr bool is_of_group() const { return of_group_; }

 private:
  int value_;
  bool of_group_;
};

}  // namespace distrun
