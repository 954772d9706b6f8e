// Join trains with uneven inputs: a rank that has used up its inputs takes part in the collectives
// of the others until every rank is done.
//
//     DistributedDataParallel ddp(std::make_shared<Net>());
//     Join({ddp}).run([&] {
//       for (const auto& [images, digits] : share_of(get_rank())) {   // More on some ranks.
//         optimizer.zero_grad();
//         loss(ddp(images), digits).backward();
//         optimizer.step();
//       }
//     });                                                     // The same model on every rank.
//
// Each participant is a Joinable.  Before the collectives of an iteration it announces that this
// rank has not joined.  A rank whose body has returned has joined: its JoinHook issues the
// collectives of the others' iterations.  When every rank has joined, post hooks bring all to the
// same state.
//
// Every rank of the group runs it with the same joinables in the same order.  The body issues no
// other collectives in that group.  Each iteration uses all joinables, in the order of the list.
//
// Only what the joinables synchronize is equal at the end: for DistributedDataParallel parameters
// and buffers, but not an optimizer's momentum.  To train on, make a new optimizer.
//
// Thread safety: one thread at a time; body and hooks run on the caller's thread.
// PyTorch source: torch/distributed/algorithms/join.py, where an exception on one rank leaves the
// others waiting.
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

// The part of a joined rank while its joinable still trains on other ranks.
class JoinHook {
 public:
  virtual ~JoinHook() = default;

  // Issues the collectives of one iteration.  Called repeatedly until every rank has joined.
  virtual void main_hook() {}

  // Called once, when every rank has joined; `is_last_joiner` if this rank was among the last.
  virtual void post_hook(bool is_last_joiner) { static_cast<void>(is_last_joiner); }
};

// Named values for the joinables: the keyword arguments of Join in Python.
class JoinArguments {
 public:
  JoinArguments() = default;
  // Takes the values by name.
  JoinArguments(std::initializer_list<std::pair<const std::string, c10::IValue>> values)
      : values_(values) {}

  // Returns the value of that name, or `otherwise` if there is none.
  //
  // Throws: c10::TypeError if the value has another type.
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

  // Returns the names that get() has not been called for.
  std::vector<std::string> unread() const;

 private:
  [[noreturn]] void throw_wrong_type(const std::string& name) const;

  std::map<std::string, c10::IValue> values_;
  mutable std::set<std::string> read_;
};

// An object that issues collectives in each iteration and can take part in a Join.
//
//     at::Tensor step(const at::Tensor& tensor) {
//       notify_join_context();
//       all_reduce(tensor, ReduceOp::SUM, {.group = group_});
//       …
//     }
class Joinable {
 public:
  virtual ~Joinable() = default;

  // Returns the hook for one Join::run(), which calls it at its start.
  virtual std::unique_ptr<JoinHook> join_hook(const JoinArguments& arguments) = 0;

  // Returns the device for the tensors of Join's own collectives.
  virtual c10::Device join_device() const = 0;
  // Returns the group in which it issues its collectives.
  virtual Group join_process_group() const = 0;

  // Returns whether an enabled Join is running with it.
  bool is_joining() const { return part_.is_joining; }

 protected:
  Joinable() = default;
  Joinable(const Joinable&) = default;
  Joinable(Joinable&&) = default;
  Joinable& operator=(const Joinable&) = default;
  Joinable& operator=(Joinable&&) = default;

  // Call it before the collectives of each iteration.  For the first joinable of a Join it sums up
  // the ranks that have not joined and returns that finished all_reduce; for others it does nothing
  // and returns Work().
  //
  // Blocks: the first joinable, until every rank takes part.  (Python does not wait.)
  // Throws: UnevenInputsError if a rank has joined and the Join throws on early termination.
  Work notify_join_context();

 private:
  friend class Join;
  // Its part in a running join.  A copy of the object has none.
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

// Thrown on every rank if inputs are uneven and JoinConfig::throw_on_early_termination is set.  The
// group stays usable.
class UnevenInputsError : public c10::Error {
 public:
  using Error::Error;
};

// Options of Join.
struct JoinConfig {
  // If false, run() only runs the body: for inputs that are known to be even.
  bool enable = true;
  // Throw UnevenInputsError on all ranks when the first has no inputs left: "Rank 0 exhausted all
  // inputs." there, "Detected at least one rank that exhausted inputs. Throwing across all ranks."
  // on the others.
  bool throw_on_early_termination = false;
  // Values for the joinables.
  JoinArguments arguments = {};
};

class Join {
 public:
  // The joinables must outlive it, and must not be moved while it runs.
  //
  // Throws: c10::ValueError if there is no joinable, one is listed twice, or they are of several
  // groups.
  explicit Join(std::vector<std::reference_wrapper<Joinable>> joinables, JoinConfig config = {});
  Join(const Join&) = delete;
  Join& operator=(const Join&) = delete;

  // Runs the body, then shadows the other ranks.  May be called again.
  //
  // An exception of the body or a hook ends the join on every rank and aborts the group.  The other
  // ranks see it at their next collective in the group; a rank that waits for the failing rank in
  // another group waits until its timeout.  The text travels through the group's store, and is lost
  // if the failing rank hosts that store and exits.
  //
  // Blocks: until every rank has run its body and all are in the same state.
  // Throws: on a failing rank its own exception; on the others a c10::DistError with the first rank
  // and its text.  A peer that vanished is a c10::DistError with the report of the first rank that
  // noticed.  c10::ValueError if no joinable reads an argument; and if a joinable is in another
  // running join, on this rank only, without a word to the others.
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
  int rank_ = 0;  // Global, for messages after the groups are gone.
};

}  // namespace distrun
