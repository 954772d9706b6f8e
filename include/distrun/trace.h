// trace() records the operators that a function calls, including collectives, as a graph that can
// be read, printed, and replayed with other inputs.
//
//     const Trace step = trace(
//         [](const std::vector<at::Tensor>& inputs) -> std::vector<at::Tensor> {
//           const at::Tensor sum = inputs[0] * 2;
//           all_reduce(sum);
//           return {sum + 1};
//         },
//         {x});
//
//     step.replay({other});                             // Returns what the function would return.
//     torch::jit::testing::FileCheck().check("allreduce_")->check("wait_tensor")->run(step.str());
//     step.graph().output().inputs()[0]->op_name();     // "aten.add" (trace_graph.h).
//
// trace() records the operators that the dispatcher calls below autograd, as make_fx does in
// Python.  Composite operators are decomposed.  The graph includes the casts of autocast, and the
// operators of a backward() that the function calls.  Names and text have the form of torch.fx.
//
// In a graph, collectives are operators of c10d, whether the function calls them through
// distrun/collectives.h or through a c10d::ProcessGroup: all_reduce is c10d.allreduce_, and
// all_gather_into_tensor is c10d._allgather_base_.  The results of such a node are the tensors that
// the collective writes on this rank.  If it writes no tensor, the results are the tensors that it
// reads.  For each result, the graph has a node "wait_tensor" at the place at which the function
// waits for the collective, even without `async_op`.  If the function uses a tensor without
// waiting, trace() adds the wait before that use.  If the function does not use the tensor, trace()
// adds the wait at the end.  trace() also waits for each send, so the receiver must run at the same
// time.  Calls of _c10d_functional operators are also nodes.
//
// A replay issues the same calls in the same order, and its tensors share memory in the same way.
// Every rank of the groups that the function uses must replay.  A replay differs from the function
// as follows:
//   - Branches, sizes and numbers (item()) are those of the recording.
//   - The trace keeps references to tensors from outside the function.  If the function changes
//     such a tensor or an input, each replay changes it again.  A tensor that does not own its
//     memory (from_blob()) is copied at its first use instead.
//   - If the grad() of a tensor from outside the function was undefined before the function's
//     backward(), a replay does not set this grad().  If the grad() was defined, each replay adds
//     to it.
//   - as_strided() uses the storage offset of the recording.
//   - Writes that bypass the dispatcher (data_ptr(), accessor()) are not recorded.  If such a write
//     fills a new tensor before an operator uses the tensor, as in at::tensor({1, 2}), the values
//     of the tensor are constants.
//   - Random numbers are drawn anew.
//   - Results do not require gradients, and the caller's autocast is ignored.
//   - Callbacks of a Work's future are not recorded.
//
// If trace() records a collective with non-contiguous outputs, getFuture() of its Work blocks until
// the collective has ended.  isCompleted() does not block, but the first call that returns true
// counts as a wait: it copies the results and records the wait.  If a thread that is not recorded
// waits for such a collective, the next use of the outputs throws a c10::NotImplementedError.
//
// PyTorch source: torch/fx/experimental/proxy_tensor.py.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "distrun/trace_graph.h"

namespace distrun {

// A recording.  Copies are cheap and share the graph.
class Trace {
 public:
  // Returns the graph, which lives as long as a copy of this object.
  const Graph& graph() const { return *graph_; }

  // Returns the graph as torch.fx prints it.
  std::string str() const;

  // Returns what the function would return for these inputs.  If a replay() runs in a function that
  // is being traced, its operators are recorded too.
  //
  // Shapes: the inputs have the number, sizes, strides, dtypes, devices and layouts of the
  // recording.
  // Throws: c10::ValueError for other inputs, or for inputs that share memory; c10::Error if a
  // recorded group was destroyed; c10::DistBackendError, which names the node, if a collective
  // fails.  Before replay() throws, it waits for the other collectives in progress.
  // Thread safety: any thread, if every rank replays the traces of a group in the same order.
  std::vector<at::Tensor> replay(const std::vector<at::Tensor>& inputs) const;

  // For distrun's own use.
  explicit Trace(std::shared_ptr<const Graph> graph) : graph_(std::move(graph)) {}

 private:
  std::shared_ptr<const Graph> graph_;
};

// Calls the function once with these inputs and records it.
//
// Throws: the exceptions of the function, which end the recording; c10::ValueError if inputs share
// memory; c10::Error if this thread is recording another trace; c10::NotImplementedError for an
// operator that takes a storage.
// Thread safety: trace() records the calling thread, the autograd threads of its backward(), and
// threads that set the caller's at::ThreadLocalState.  Other threads may call trace() at the same
// time.
Trace trace(const std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)>& function,
            const std::vector<at::Tensor>& inputs);

}  // namespace distrun
