// Join lets ranks with uneven inputs train together: a rank that has none left goes on with the
// collectives that the others still need of it, until every rank is through.
//
//     DistributedDataParallel ddp(std::make_shared<Net>());
//     Join({ddp}).run([&] {
//       for (const auto& [images, digits] : share_of(get_rank())) {   // as many as this rank has
//         optimizer.zero_grad();
//         loss(ddp(images), digits).backward();
//         optimizer.step();
//       }
//     });                                                     // the same model on every rank
//
// What takes part is a Joinable.  It tells before each of its iterations' collectives that this
// rank has not joined; a rank whose body has returned makes, with its JoinHook, the collectives
// that the iteration of the others has (it shadows them).  When every rank has joined, post hooks
// bring all to the same state.
//
// Every rank of the group runs it with the same joinables in the same order, and no other
// collective of that group in the body than those of the joinables.  Several joinables go through
// an iteration together, in the order of the list: the first one's turn begins it.
//
// What is the same at the end is what the joinables bring to the same state: of a
// DistributedDataParallel parameters and buffers, but not what an optimizer has of them, momentum
// and the like.  Ranks that have taken different numbers of steps have different ones: where
// training goes on, make a new optimizer.
//
// Errors: a body or a hook that throws ends the join on every rank, and the group with it
// (abort_process_group()): that rank's exception goes on to its caller, and so does another's own;
// who was waiting for them throws a c10::DistError that names the first, with its text.  They see
// it at their next collective in the group: a rank that has its last post hook behind it goes on
// until then, one that waits for that rank in another group waits until its timeout, and backends
// other than Gloo may see an abort only then.  A peer that is gone without a word is a
// c10::DistError on every rank, with what the first that noticed has said of it.  Texts go by the
// group's store, and are lost with it where the failing rank hosts it and ends.
//
// Threads: one at a time; body and hooks run on the caller's.
//
// From torch/distributed/algorithms/join.py, which is a context manager: there the exception of one
// rank leaves the others waiting.
#pragma once

#include <cstddef>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/ivalue.h>
#include <c10/core/Device.h>
#include <c10/util/Exception.h>

#include "distrun/group.h"
#include "distrun/work.h"

namespace distrun {

// What a rank that has joined does in place of what its joinable does on the others.
class JoinHook {
 public:
  virtual ~JoinHook() = default;

  // Called again and again while some rank has not joined: makes the collectives of one iteration.
  virtual void main_hook() {}

  // Called once, when every rank has joined.  `is_last_joiner`: this rank was one of the last.
  virtual void post_hook(bool is_last_joiner) { static_cast<void>(is_last_joiner); }
};

// Named values for the hooks, in Python the keyword arguments of Join: each joinable reads those
// that it knows.  One that none reads is an error.
class JoinArguments {
 public:
  JoinArguments() = default;
  JoinArguments(std::initializer_list<std::pair<const std::string, c10::IValue>> values)
      : values_(values) {}

  // Throws c10::TypeError where the value is of another type.
  template <class T>
  T get(const std::string& name, T otherwise) const {
    read_.insert(name);
    const auto found = values_.find(name);
    if (found == values_.end()) return otherwise;
    try {
      return found->second.to<T>();
    } catch (const c10::Error&) {
      throw_wrong_type(name);
    }
  }

  std::vector<std::string> unread() const;

 private:
  [[noreturn]] void throw_wrong_type(const std::string& name) const;

  std::map<std::string, c10::IValue> values_;
  mutable std::set<std::string> read_;
};

// Something with collectives in each iteration that can be shadowed.
//
//     at::Tensor step(const at::Tensor& tensor) {
//       notify_join_context();
//       all_reduce(tensor, ReduceOp::SUM, {.group = group_});
//       …
//     }
class Joinable {
 public:
  virtual ~Joinable() = default;

  // Asked at the beginning of each Join::run().
  virtual std::unique_ptr<JoinHook> join_hook(const JoinArguments& arguments) = 0;

  // Where the tensors of Join's own collectives lie, and the group they are made in.
  virtual c10::Device join_device() const = 0;
  virtual Group join_process_group() const = 0;

  // A Join is running whose ranks may have uneven inputs.
  bool is_joining() const { return part_.is_joining; }

 protected:
  Joinable() = default;
  Joinable(const Joinable&) = default;
  Joinable(Joinable&&) = default;
  Joinable& operator=(const Joinable&) = default;
  Joinable& operator=(Joinable&&) = default;

  // Before the collectives of an iteration.  For the first joinable of a Join it makes an
  // all_reduce whose sum is the number of ranks that have not joined, and returns it when it has
  // ended (Python leaves it under way); else there is nothing.  Throws UnevenInputsError where Join
  // is to throw on early termination and a rank has joined.
  Work notify_join_context();

 private:
  friend class Join;
  // Its part in a running join.  It is the object's: a copy has none.
  struct Part {
    bool is_joining = false;
    bool is_first = false;
    bool throws = false;
    bool has_thrown = false;

    Part() = default;
    Part(const Part& /*other*/) {}
    Part& operator=(const Part& /*other*/) { return *this; }
  };
  Part part_;
};

// That ranks have uneven inputs, where Join was to throw then: on all of them, the group stays
// good.
class UnevenInputsError : public c10::Error {
 public:
  using Error::Error;
};

struct JoinConfig {
  // Off: the body just runs.  For who knows that inputs are even.
  bool enable = true;
  // The first rank without inputs makes all throw an UnevenInputsError: "Rank 0 exhausted all
  // inputs." there, "Detected at least one rank that exhausted inputs. Throwing across all ranks."
  // on those in the middle of theirs.
  bool throw_on_early_termination = false;
  JoinArguments arguments = {};
};

class Join {
 public:
  // The joinables outlive it, and stay where they are while it runs.  Throws c10::ValueError where
  // there are none, they are of several groups, or one is there twice.
  explicit Join(std::vector<std::reference_wrapper<Joinable>> joinables, JoinConfig config = {});
  Join(const Join&) = delete;
  Join& operator=(const Join&) = delete;

  // A collective: returns when every rank has run its body, and all are in the same state.  The
  // body is run even where the join is not enabled.  Can be called again.  Throws c10::ValueError
  // where an argument is none of the joinables', and, telling nobody, where one of these is in
  // another join already.
  void run(const std::function<void()>& body);

 private:
  class Scope;
  using Hooks = std::vector<std::unique_ptr<JoinHook>>;
  Hooks make_hooks() const;
  void shadow_the_others(const Hooks& hooks);
  double ranks_not_joined() const;
  [[noreturn]] void rethrow_as_told() const;

  std::vector<std::reference_wrapper<Joinable>> joinables_;
  JoinConfig config_;
  Group group_;
  int rank_ = 0;  // The global one, to be told when the groups may be gone.
};

}  // namespace distrun
