// trace() records the operators that a function calls, including collectives.  The result is a
// graph.  You can read and print the graph, and replay it with other inputs.
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
// trace() records the operators that LibTorch's dispatcher calls below autograd, as make_fx does in
// Python.  Composite operators are decomposed into the operators that they call.  The graph
// includes the casts of autocast, and the operators of a backward() that the function calls.  The
// names of nodes and the printed graph have the form of torch.fx.
//
// In a graph, collectives are operators of c10d: all_reduce is c10d.allreduce_, and
// all_gather_into_tensor is c10d._allgather_base_.  It makes no difference whether the function
// calls a collective through distrun/collectives.h or through a c10d::ProcessGroup.  The results of
// a collective's node are the tensors that the collective writes on this rank.  If the collective
// writes no tensor, the results of the node are the tensors that the collective reads.  Operators
// of _c10d_functional are nodes too.
//
// For each result of a collective, the graph has a node "wait_tensor" at the place at which the
// function waits for the collective, even if the collective has no `async_op`.  If the function
// uses the result without waiting, trace() adds the wait before this use.  If the function does not
// use the result, trace() adds the wait at the end.  trace() also waits for each send, so the
// receiver must run at the same time.
//
// A replay issues the same calls in the same order, and its tensors share memory in the same way.
// Every rank of the groups that the function uses must replay.  A replay differs from the function
// as follows:
//   - Branches, sizes and numbers (item()) are the same as in the recording.
//   - The trace keeps references to tensors from outside the function.  If the function changes
//     such a tensor or an input, each replay changes this tensor or input again.  If a tensor does
//     not own its memory (from_blob()), the trace copies the tensor at its first use, and keeps the
//     copy.
//   - If the grad() of a tensor from outside the function was undefined before the function's
//     backward(), a replay does not set this grad().  If the grad() was defined, each replay adds
//     to this grad().
//   - as_strided() uses the storage offset of the recording.
//   - Writes that bypass the dispatcher (data_ptr(), accessor()) are not recorded.  If such a write
//     fills a new tensor before an operator uses the tensor, as in at::tensor({1, 2}), the tensor
//     is a constant in the graph.
//   - Each replay draws new random numbers.
//   - Results do not require gradients, and the caller's autocast is ignored.
//   - Callbacks of a Work's future are not recorded.
//
// While trace() records, a collective with non-contiguous outputs has these limits.  getFuture() of
// its Work blocks until the collective has ended.  isCompleted() of its Work does not block.  The
// first call of isCompleted() that returns true counts as a wait, so it copies the results and
// records the wait.  If a thread that trace() does not record waits for the collective, the next
// use of the outputs throws a c10::NotImplementedError.
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
  // Returns the graph.  It exists as long as this object or a copy of it exists.
  const Graph& graph() const { return *graph_; }

  // Returns the graph as torch.fx prints it.
  std::string str() const;

  // Returns what the function would return for these inputs.  If a function that is being traced
  // calls replay(), the operators of the replay are recorded too.
  //
  // Shapes: the inputs have the same number, sizes, strides, dtypes, devices and layouts as in the
  // recording, and the same conjugate and negative bits.
  // Throws: c10::ValueError if the inputs do not have these properties, or if two inputs share
  // memory.
  // Also throws c10::Error if a group in the recording was destroyed.
  // Also throws c10::DistBackendError if a collective fails.  The text names the node of this
  // collective.  Before replay() throws, it waits for the other collectives in progress.
  // Thread safety: any thread may call replay(), if every rank replays the traces of a group in the
  // same order.
  // Cost: one call of the dispatcher for each node.  An intermediate tensor is freed after its last
  // use.
  std::vector<at::Tensor> replay(const std::vector<at::Tensor>& inputs) const;

  // Only distrun calls this constructor.
  explicit Trace(std::shared_ptr<const Graph> graph) : graph_(std::move(graph)) {}

 private:
  std::shared_ptr<const Graph> graph_;
};

// Calls the function once with these inputs and records this call.
//
// Throws: the exceptions of the function.  They end the recording.
// Also throws c10::ValueError if an input is undefined, or if two inputs share memory.
// Also throws c10::Error if this thread is already recording another trace.
// Also throws c10::NotImplementedError if the function calls an operator that takes a storage.
// Thread safety: trace() records the calling thread, the autograd threads of a backward() that the
// function calls, and threads that set the calling thread's at::ThreadLocalState.  Other threads
// may call trace() at the same time.
// Cost: the Trace keeps the tensors from outside the function, so their memory is not freed while
// the Trace exists.
Trace trace(const std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)>& function,
            const std::vector<at::Tensor>& inputs);

}  // namespace distrun
