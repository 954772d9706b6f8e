// A unit of FullyShardedDataParallel: when its parameters are gathered, freed and reduced.
//
// The forward of a unit:   gather, run the module, free.  The outermost unit keeps the memory.
// The backward of a unit:  gather when a gradient reaches an output; reduce gradients and free when
//                          the gradients of all inputs are complete, or at the end of backward.
//
// Between the two, parameters are shards even if the memory is kept: an optimizer may take a step.
//
// While a unit computes, it starts to gather the next one, in the order of the last forward. At
// most one reduction is under way.
//
// Thread safety: one thread at a time; backward may be another thread.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "distrun/fsdp_options.h"
#include "parallel/fsdp/sharded_parameters.h"

namespace distrun::internal {

class FsdpForwardCall;
struct FsdpTree;

class FsdpUnit : public std::enable_shared_from_this<FsdpUnit> {
  struct Private {};

 public:
  FsdpUnit(Private /*only make() constructs*/, std::vector<NamedTensor> parameters,
           const FsdpOptions& options);
  // The names begin at this unit's module.
  static std::shared_ptr<FsdpUnit> make(std::vector<NamedTensor> parameters,
                                        const FsdpOptions& options);

  ShardedParameters& parameters() { return parameters_; }
  const FsdpOptions& options() const { return options_; }
  const std::shared_ptr<FsdpTree>& tree() const { return tree_; }
  void join(std::shared_ptr<FsdpTree> tree) { tree_ = std::move(tree); }
  bool is_root() const;
  bool is_in_backward() const { return is_in_backward_; }

  void before_forward();
  void after_forward(FsdpForwardCall& call, bool needs_backward);
  void before_backward(const FsdpForwardCall& call);
  void after_backward();
  // Reduces gradients that earlier backwards have kept, if this one has not.
  void reduce_kept();
  // Frees the parameters and forgets gradients that are not reduced, after an error in backward.
  void reset();

 private:
  bool reshards_after_forward() const;
  // Throws if a gradient reaches a parameter when the unit has no backward.
  void watch_gradients();

  const FsdpOptions options_;
  ShardedParameters parameters_;
  std::shared_ptr<FsdpTree> tree_;
  bool is_in_backward_ = false;
  bool reduces_ = false;  // In the current backward.
};

// One call of a unit's forward, and its part of the graph.
class FsdpForwardCall : public std::enable_shared_from_this<FsdpForwardCall> {
 public:
  explicit FsdpForwardCall(std::shared_ptr<FsdpUnit> unit);

  at::Tensor input(const at::Tensor& tensor);
  std::vector<at::Tensor> end(std::vector<at::Tensor> outputs);
  // The forward has thrown, if it has not ended.
  void close();

 private:
  friend class FsdpUnit;

  const std::shared_ptr<FsdpUnit> unit_;
  const bool reduces_;                   // Its backward reduces gradients.
  std::size_t inputs_ = 0;               // With a gradient.
  std::size_t gradients_of_inputs_ = 0;  // Complete ones.
  std::weak_ptr<FsdpUnit> previous_;     // The unit whose forward ended before: next in backward.
  bool has_ended_ = false;
};

// The units of a model. A unit within others joins the outermost one's.
struct FsdpTree : std::enable_shared_from_this<FsdpTree> {
  std::vector<std::weak_ptr<FsdpUnit>> units;              // The outermost one is the last.
  bool syncs = true;                                       // Not under no_sync().
  int depth = 0;                                           // Forwards that run.
  std::vector<std::weak_ptr<FsdpUnit>> order, last_order;  // Of the forwards of a step.
  std::weak_ptr<FsdpUnit> last_ended;                      // The last forward that ended.
  std::weak_ptr<FsdpUnit> reducing;
  std::weak_ptr<void> backward;  // Alive while a backward runs.
  bool reduces = false;          // One of its forwards ran without no_sync().

  template <class Act>
  void for_each(const Act& act) const {
    for (const auto& one : units) {
      if (const auto unit = one.lock()) act(*unit);
    }
  }
  bool is_in_backward() const { return !backward.expired(); }
  // Lets finish_backward() run at the end of the current backward.
  void begin_backward();
  void finish_backward();
  void finish_reduce();
  void reset();
  // A backward that threw has not reached its end.
  void reset_after_failure();
};

}  // namespace distrun::internal
