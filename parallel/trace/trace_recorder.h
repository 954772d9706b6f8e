// TraceRecorder makes a graph of what is dispatched while it is the recorder of a thread.
//
//     const auto recorder = std::make_shared<TraceRecorder>();
//     recorder->add_input(x);
//     { const RecorderScope scope(recorder);  y = function(x); }
//     recorder->finish({y});
//     recorder->graph();
//
// It sits below autograd (at the dispatch key Fake, which has no other use here): composite
// operators have come apart there, casts of autocast and the operators of a backward are calls like
// others, and what kernels call in turn is not seen.
//
// A collective's node is that of the operator of c10d.  Its work becomes a BegunCollective, whose
// wait() is recorded as a node for each of its tensors.  Where a tensor is used that has not been
// waited for, it is waited for.  Memory that was made by empty() and that no operator has written
// to before one reads it, was written past the dispatcher: it becomes a constant.
//
// For the files of this folder.  Threads: that of the scope, and those on which autograd goes on
// with it.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "distrun/trace_graph.h"
#include "parallel/trace/trace_values.h"

namespace distrun::internal {

class TraceRecorder : public c10::DebugInfoBase,
                      public std::enable_shared_from_this<TraceRecorder> {
 public:
  TraceRecorder() : graph_(std::make_unique<Graph>()) {}

  // None: nothing is recorded here.
  static TraceRecorder* current();

  void add_input(const at::Tensor& tensor);
  // Runs the operator on the stack, and adds it to the graph.
  void call(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);
  // Waits for what is still under way; the function has returned these.  In the scope.
  void finish(const std::vector<at::Tensor>& results);

  // Whoever still has the recorder, as a thread that goes on has, records nothing from then on.
  std::unique_ptr<Graph> take_graph();

 private:
  struct UnderWay;
  class Listener;
  struct Call;

  const Node* value_of(const at::Tensor& tensor);
  // For an operator that changes how it lies in memory.
  const Node* own_value_of(const at::Tensor& tensor);
  std::vector<Argument> arguments_of(const Call& call);
  Argument argument(const c10::IValue& value, const c10::Type& type);
  void add_results(const c10::IValue& value, const Node* node);
  void add_node(const Call& call, torch::jit::Stack& stack, std::vector<Argument> arguments);
  void add_collective(const Node* node, const Call& call, torch::jit::Stack& stack);

  void wait_for_used(const Call& call);
  void wait_for_all();
  static bool uses(const Call& call, UnderWay& begun);
  void wait_for(const std::shared_ptr<UnderWay>& begun);
  void add_waits(const std::shared_ptr<UnderWay>& begun);

  void keep_what_was_written_unseen(const Call& call);
  void keep_if_unwritten(const at::Tensor& tensor);

  std::recursive_mutex mutex_;
  std::unique_ptr<Graph> graph_;
  bool has_ended_ = false;
  TraceValues values_;
  std::vector<std::shared_ptr<UnderWay>> under_way_;
  // What makes room, and has not been written to, by memory.
  std::map<const c10::StorageImpl*, std::pair<at::Tensor, const Node*>> unwritten_;
};

// While it lives, `recorder` is this thread's.  Throws where there is one already.
class RecorderScope {
 public:
  explicit RecorderScope(const std::shared_ptr<TraceRecorder>& recorder);

 private:
  c10::DebugInfoGuard recorder_;
  c10::impl::IncludeDispatchKeyGuard key_;
};

}  // namespace distrun::internal
