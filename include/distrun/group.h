// Group names a group of ranks, for the functions that take one: the default group, which has all
// ranks of the run, or one that new_group() made.
//
//     Group pair = new_group({0, 1});
//     if (pair.is_member()) all_reduce(tensor, ReduceOp::SUM, {.group = pair});
//     all_reduce(tensor);                                  // Group(), the default group
//
// A Group is cheap to copy; all copies are the same group.  It is freed, and its connections with
// it, when the last copy is gone, or at once by destroy_process_group(group), or with the default
// group.  What is used after that is an error that says so.  Keep it until the other members are
// through: who drops a group that nothing was done in may do so while a peer still connects, which
// gets an error then; barrier({.group = pair}) is enough.  As in torch.distributed, a rank that
// is not in the group has a Group all the same: with it collectives warn and do nothing.
//
// Threads: copies may be made, used and dropped on any thread; a group's own collectives are called
// from one thread at a time.
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
  // The default group: the one there is when this is used.
  Group() = default;

  bool is_default() const { return !state_; }

  // This rank is in the group, or was before it was destroyed.  Of the default group, every rank
  // is.
  bool is_member() const;

  // The group that LibTorch has, for what has no function here: include
  // <torch/csrc/distributed/c10d/ProcessGroup.hpp>.  Throws where there is no default group, where
  // this rank is not a member, and where the group has been destroyed.
  const c10::intrusive_ptr<c10d::ProcessGroup>& process_group() const;
  c10d::ProcessGroup* operator->() const { return process_group().get(); }

  // The same group.
  friend bool operator==(const Group&, const Group&) = default;

 private:
  friend struct internal::GroupAccess;
  explicit Group(std::shared_ptr<internal::GroupState> state) : state_(std::move(state)) {}

  std::shared_ptr<internal::GroupState> state_;
};

// Options for one backend: an object of its class derived from c10d::Backend::Options, or nothing.
//
//     init_process_group({.backend_options = c10d::ProcessGroupGloo::Options::create_default()});
//
// Other types do not compile.  The backends gloo and fake throw c10::TypeError for the options of
// another backend when the group is made; a backend of your own checks BackendRequest::options
// itself.  This header does not include Backend.hpp, which takes seconds to compile; code that has
// options already includes it.
class BackendOptions {
 public:
  BackendOptions() = default;

  template <internal::IsBackendOptions Options>
  BackendOptions(c10::intrusive_ptr<Options> options)  // NOLINT: is written without its type.
      : options_(std::move(options)) {}

  // Null if there are no options.
  const c10::intrusive_ptr<c10::intrusive_ptr_target>& pointer() const { return options_; }

 private:
  c10::intrusive_ptr<c10::intrusive_ptr_target> options_;
};

// The number of a rank within its group; a plain int is a global one, as it is in torch.distributed
// (there: group_src and group_dst).
//
//     broadcast(tensor, GroupRank(0), {.group = pair});
class GroupRank {
 public:
  constexpr explicit GroupRank(int value) : value_(value) {}
  constexpr int value() const { return value_; }

 private:
  int value_;
};

// A rank, named in either way.
class AnyRank {
 public:
  constexpr AnyRank(int global) : value_(global), of_group_(false) {}           // NOLINT
  constexpr AnyRank(GroupRank rank) : value_(rank.value()), of_group_(true) {}  // NOLINT
  constexpr int value() const { return value_; }
  constexpr bool is_of_group() const { return of_group_; }

 private:
  int value_;
  bool of_group_;
};

}  // namespace distrun
