// TraceRecorder records a thread's operators as a graph.
//
//     const auto recorder = std::make_shared<TraceRecorder>();
//     recorder->add_input(x);
//     { const RecorderScope scope(recorder);  y = function(x); }
//     recorder->finish({y});
//     recorder->graph();
//
// It records below autograd, at the otherwise unused dispatch key Fake. There, composite operators
// are decomposed, and autocast's casts and a backward's operators are ordinary calls. Calls within
// kernels are not recorded.
//
// A collective is recorded as the operator of c10d.  Its work becomes a BegunCollective, whose
// wait() adds a node for each tensor.  The recorder waits for a tensor before an operator uses it.
// Memory of empty() that is read but that no operator has written becomes a constant.
//
// Thread safety: only the scope's thread, and threads on which autograd continues it.
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

  // Null if this thread records nothing.
  static TraceRecorder* current();

  void add_input(const at::Tensor& tensor);
  // Runs the operator on the stack and adds it to the graph.
  void call(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);
  // Waits for running collectives and records the results.  Call it in the scope.
  void finish(const std::vector<at::Tensor>& results);

  // Afterwards, threads that still have the recorder record nothing.
  std::unique_ptr<Graph> take_graph();

 private:
  struct UnderWay;
  class Listener;
  struct Call;

  const Node* value_of(const at::Tensor& tensor);
  // For operators that change the layout of a tensor.
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
  // Memory that no operator has written, with the node that allocated it.
  std::map<const c10::StorageImpl*, std::pair<at::Tensor, const Node*>> unwritten_;
};

// Makes `recorder` the thread's recorder while it lives. Throws if the thread has one.
class RecorderScope {
 public:
  explicit RecorderScope(const std::shared_ptr<TraceRecorder>& recorder);

 private:
  c10::DebugInfoGuard recorder_;
  c10::impl::IncludeDispatchKeyGuard key_;
};

}  // namespace distrun::internal
