// Join trains with uneven inputs: a rank that has used up its inputs takes part in the collectives
// of the other ranks until every rank has used up its inputs.
//
//     DistributedDataParallel ddp(std::make_shared<Net>());
//     Join({ddp}).run([&] {
//       for (const auto& [images, digits] : share_of(get_rank())) {   // More on some ranks.
//         optimizer.zero_grad();
//         loss(ddp(images), digits).backward();
//         optimizer.step();
//       }
//     });                                                     // Now all ranks have the same model.
//
// Each object that takes part, such as a DistributedDataParallel, is a Joinable.  The function
// passed to run() is the body.  A rank has joined when its body has returned.  Before the
// collectives of each iteration, the first Joinable tells the other ranks that its rank has not
// joined.  On a joined rank, JoinHooks issue the collectives that match the other ranks'
// iterations.  When every rank has joined, post hooks give all ranks the same final state: a
// DistributedDataParallel, for example, copies its parameters and buffers to all ranks.
//
// Every rank of the group runs the Join with the same joinables in the same order.  The body must
// not issue other collectives in that group.  Each iteration must use all joinables, in the order
// of the list.
//
// DistributedDataParallel synchronizes parameters and buffers, but not the state of an optimizer,
// such as momentum.  To continue training after a Join, create a new optimizer.
//
// Thread safety: one thread at a time; body and hooks run on the caller's thread.
// PyTorch source: torch/distributed/algorithms/join.py.
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

// What a joined rank does while the joinable still trains on other ranks.
class JoinHook {
 public:
  virtual ~JoinHook() = default;

  // Issues the collectives of one iteration.  Join::run() calls it once for each iteration of the
  // other ranks, until every rank has joined.
  virtual void main_hook() {}

  // Join::run() calls it once, when every rank has joined.  `is_last_joiner` is true on the ranks
  // that joined last.
  virtual void post_hook(bool is_last_joiner) { static_cast<void>(is_last_joiner); }
};

// Named values for the joinables: the keyword arguments of Join in Python.
class JoinArguments {
 public:
  JoinArguments() = default;
  // Stores values under names.
  JoinArguments(std::initializer_list<std::pair<const std::string, c10::IValue>> values)
      : values_(values) {}

  // Returns the value of that name, or `otherwise` if no value has that name.
  //
  // Throws: c10::TypeError if the type of the value is not T.
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

  // Returns the names with which get() has not been called.
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

  // Returns the hook for one run of a Join.  Join::run() calls join_hook() once, when it starts.
  virtual std::unique_ptr<JoinHook> join_hook(const JoinArguments& arguments) = 0;

  // Returns the device for the tensors of Join's own collectives.
  virtual c10::Device join_device() const = 0;
  // Returns the group in which this object issues its collectives.
  virtual Group join_process_group() const = 0;

  // Returns whether this object takes part in a running Join that is enabled.
  bool is_joining() const { return part_.is_joining; }

 protected:
  Joinable() = default;
  Joinable(const Joinable&) = default;
  Joinable(Joinable&&) = default;
  Joinable& operator=(const Joinable&) = default;
  Joinable& operator=(Joinable&&) = default;

  // Call it before the collectives of each iteration.  For the first joinable of a Join, it runs an
  // all_reduce that counts the ranks that have not joined, and returns the completed Work.  For
  // other joinables it does nothing and returns Work().
  //
  // Blocks: for the first joinable of a Join, until every rank takes part in the all_reduce.
  // (Python does not wait.)
  // Throws: UnevenInputsError if a rank has joined and JoinConfig::throw_on_early_termination is
  // set.
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
  // If false, run() only runs the body.  Use it if all ranks have equally many inputs.
  bool enable = true;
  // Throw UnevenInputsError on all ranks when one rank has no inputs left.  On that rank, N, the
  // text is "Rank N exhausted all inputs."  On the other ranks it is "Detected at least one rank
  // that exhausted inputs. Throwing across all ranks."
  bool throw_on_early_termination = false;
  // Values for the joinables.
  JoinArguments arguments = {};
};

class Join {
 public:
  // The joinables must outlive the Join, and must not be moved while run() runs.
  //
  // Throws: c10::ValueError if the list is empty, contains a joinable twice, or contains joinables
  // of different groups.
  explicit Join(std::vector<std::reference_wrapper<Joinable>> joinables, JoinConfig config = {});
  Join(const Join&) = delete;
  Join& operator=(const Join&) = delete;

  // Runs the body, and then issues the collectives that match the other ranks' iterations.  You can
  // call run() again.
  //
  // If the body or a hook throws an exception other than UnevenInputsError, the join ends on every
  // rank and the group is aborted.  (In Python, the other ranks wait until their timeout.)  The
  // other ranks throw at their next collective in the group.  If a rank waits for the failing rank
  // in a collective of another group, it waits until that group's timeout.  The failing rank writes
  // the exception's text to the group's store.  If the failing rank hosts the store and exits, the
  // text is lost.
  //
  // Blocks: until every rank has run its body, and the post hooks have run.
  // Throws: the failing rank throws its own exception.  The other ranks throw a c10::DistError with
  // the number of the first rank that failed and the text of its exception.  If a peer is lost,
  // each rank throws a c10::DistError with the error of the first rank that detected the loss.
  // With throw_on_early_termination, every rank throws UnevenInputsError if inputs are uneven.
  // run() throws a c10::ValueError if there is an argument that no joinable reads.  If a joinable
  // is in another running join, only this rank throws a c10::ValueError, and the other ranks do not
  // learn of it.
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
