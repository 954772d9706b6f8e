// Join trains on ranks with uneven inputs.  A rank that has used up its inputs takes part in the
// collectives of the other ranks until every rank has used up its inputs.
//
//     DistributedDataParallel ddp(std::make_shared<Net>());
//     Join({ddp}).run([&] {
//       for (const auto& [images, digits] : share_of(get_rank())) {  // Some ranks have more data.
//         optimizer.zero_grad();
//         loss(ddp(images), digits).backward();
//         optimizer.step();
//       }
//     });                                                     // Now all ranks have the same model.
//
// A joinable is an object that takes part in a Join, such as a DistributedDataParallel.  The class
// of a joinable derives from Joinable.  The body is the function that is passed to run().  A rank
// has joined when its body has returned.  For a joined rank, each joinable provides a JoinHook with
// two functions: main_hook() and post_hook().
//
// At the start of each iteration, the first joinable runs an all_reduce that counts the ranks that
// have not joined.  On a joined rank, Join::run() takes part in this all_reduce.  It then calls
// main_hook() of each JoinHook.  main_hook() issues the collectives that match the iteration of the
// other ranks.
//
// When every rank has joined, Join::run() calls post_hook() of each JoinHook.  post_hook() gives
// all ranks the same final state.  For example, post_hook() of a DistributedDataParallel copies
// parameters and buffers to all ranks.
//
// All joinables of a Join use one group.  Every rank of this group runs the Join with the same
// joinables in the same order.  The body must not issue other collectives in this group.  Each
// iteration must use all joinables, in the order of the list.
//
// DistributedDataParallel synchronizes parameters and buffers, but not the state of an optimizer,
// such as momentum.  To continue training after a Join, create a new optimizer, or use a
// ZeroRedundancyOptimizer that takes part in the Join.
//
// Thread safety: one thread at a time.  The body and the hooks run on the caller's thread.
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

// A JoinHook acts for a joinable on a joined rank, while the joinable still trains on other ranks.
class JoinHook {
 public:
  virtual ~JoinHook() = default;

  // Issues the collectives of one iteration.  Join::run() calls main_hook() once for each iteration
  // of the other ranks, until every rank has joined.  The default does nothing.
  virtual void main_hook() {}

  // Gives all ranks the same final state.  Join::run() calls post_hook() once, when every rank has
  // joined.  `is_last_joiner` is true on the ranks that joined last.  The default does nothing.
  virtual void post_hook(bool is_last_joiner) { static_cast<void>(is_last_joiner); }
};

// Named values for the joinables.  In Python, these are the keyword arguments of Join.
class JoinArguments {
 public:
  JoinArguments() = default;
  // Stores values under names.
  JoinArguments(std::initializer_list<std::pair<const std::string, c10::IValue>> values)
      : values_(values) {}

  // Returns the value with this name, or `otherwise` if no value has this name.
  //
  // Throws: c10::TypeError if the value cannot be converted to T.
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

  // Returns the names for which get() was never called.
  std::vector<std::string> unread() const;

 private:
  [[noreturn]] void throw_wrong_type(const std::string& name) const;

  std::map<std::string, c10::IValue> values_;
  mutable std::set<std::string> read_;
};

// The base class of joinables.  Derive your class from Joinable, and call notify_join_context()
// before the other collectives of each iteration:
//
//     at::Tensor step(const at::Tensor& tensor) {
//       notify_join_context();
//       all_reduce(tensor, ReduceOp::SUM, {.group = group_});
//       …
//     }
class Joinable {
 public:
  virtual ~Joinable() = default;

  // Returns the JoinHook for one call of Join::run().  Join::run() calls join_hook() once, when it
  // starts.
  virtual std::unique_ptr<JoinHook> join_hook(const JoinArguments& arguments) = 0;

  // Returns the device for the tensors of Join's own collectives.
  virtual c10::Device join_device() const = 0;
  // Returns the group in which this object issues its collectives.
  virtual Group join_process_group() const = 0;

  // Returns whether this object takes part in a Join that is enabled and running.
  bool is_joining() const { return part_.is_joining; }

 protected:
  Joinable() = default;
  Joinable(const Joinable&) = default;
  Joinable(Joinable&&) = default;
  Joinable& operator=(const Joinable&) = default;
  Joinable& operator=(Joinable&&) = default;

  // Call this function before the other collectives of each iteration.  On the first joinable of a
  // running Join, this function runs an all_reduce that counts the ranks that have not joined, and
  // returns the completed Work.  On other joinables, and outside a Join, this function does nothing
  // and returns Work().
  //
  // Blocks: on the first joinable of a Join, until every rank takes part in the all_reduce.
  // (Python does not wait.)
  // Throws: UnevenInputsError if a rank has joined and JoinConfig::throw_on_early_termination is
  // true.
  // Cost: one all_reduce of one number.  With throw_on_early_termination, two such all_reduces.
  Work notify_join_context();

 private:
  friend class Join;
  // The object's part in a running join.  A copy of the object takes part in no join.
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

// Thrown on every rank if inputs are uneven and JoinConfig::throw_on_early_termination is true.
// The group remains usable.
class UnevenInputsError : public c10::Error {
 public:
  using Error::Error;
};

// Options of Join.
struct JoinConfig {
  // If false, run() calls the body and does nothing else.  Set `enable` to false if all ranks have
  // the same number of inputs.
  bool enable = true;
  // If true, all ranks throw UnevenInputsError when one rank has no inputs left.  On this rank, the
  // text is "Rank N exhausted all inputs.", where N is its group rank.  On the other ranks, the
  // text is "Detected at least one rank that exhausted inputs. Throwing across all ranks."
  bool throw_on_early_termination = false;
  // Values for the joinables.
  JoinArguments arguments = {};
};

class Join {
 public:
  // Keeps references to the joinables.  The joinables must outlive the Join, and must not be moved
  // while run() runs.
  //
  // Throws: c10::ValueError if the list is empty, contains a joinable twice, or contains joinables
  // of different groups.
  explicit Join(std::vector<std::reference_wrapper<Joinable>> joinables, JoinConfig config = {});
  Join(const Join&) = delete;
  Join& operator=(const Join&) = delete;

  // Runs the body.  After that, this rank has joined, and run() issues the collectives that match
  // the iterations of the other ranks until every rank has joined.  You can call run() again.
  //
  // If the body or a hook throws an exception other than UnevenInputsError, the Join ends on every
  // rank, and the group is aborted.  The other ranks throw at their next collective in the group.
  // (In Python, they wait until their timeout.)  If a rank waits for the failing rank in a
  // collective of another group, this wait lasts until the timeout of that group.
  //
  // The failing rank writes the exception's text to the group's store, and the other ranks read the
  // text there.  If the failing rank hosts the store and exits, the text is lost.  The other ranks
  // then throw the error of their own collective without this text.
  //
  // Blocks: until every rank has joined and every post_hook() has returned.
  // Throws: the exception of the body or of a hook, on the rank that failed.
  // Also throws c10::DistError on the other ranks.  The text names the first rank that failed, and
  // contains the text of its exception.
  // Also throws c10::DistError on each rank if a peer is lost.  The text contains the error of the
  // first rank that detected the loss.
  // Also throws UnevenInputsError on every rank if inputs are uneven and throw_on_early_termination
  // is true.
  // Also throws c10::ValueError if JoinConfig::arguments has a name that no joinable reads.
  // Also throws c10::ValueError if a joinable already takes part in another running Join.  In this
  // case, the other ranks are not informed.
  // Cost: each iteration runs one all_reduce of one number.  With throw_on_early_termination, it
  // runs two such all_reduces.  The joinables run further collectives (see
  // DdpReducer::join_hook()).
  void run(const std::function<void()>& body);

 private:
  class Scope;
  using Hooks = std::vector<std::unique_ptr<JoinHook>>;
  Hooks make_hooks() const;
  void shadow_the_others(const Hooks& hooks);
  double ranks_not_joined() const;

  std::vector<std::reference_wrapper<Joinable>> joinables_;
  JoinConfig config_;
  Group group_;
  int rank_ = 0;  // Global, for messages after the groups are gone.
};

}  // namespace distrun
