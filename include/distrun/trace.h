// trace() records which operators a function calls, collectives among them, as a graph that can be
// read, printed, and run again on other inputs.
//
//     const Trace step = trace(
//         [](const std::vector<at::Tensor>& inputs) -> std::vector<at::Tensor> {
//           const at::Tensor sum = inputs[0] * 2;
//           all_reduce(sum);
//           return {sum + 1};
//         },
//         {x});
//
//     step.replay({other});                             // what the function would make of it
//     torch::jit::testing::FileCheck().check("allreduce_")->check("wait_tensor")->run(step.str());
//     step.graph().output().inputs()[0]->op_name();     // "aten.add" (trace_graph.h)
//
// What is recorded is what the dispatcher sees below autograd, as make_fx records in Python:
// composite operators have come apart, autocast's casts are there, and where the function calls
// backward(), so are the operators of that.  Names and text are torch.fx's.
//
// Collectives are the operators of c10d, whether they come from distrun/collectives.h or from a
// c10d::ProcessGroup: all_reduce is c10d.allreduce_, all_gather_into_tensor c10d._allgather_base_.
// The items of such a node are the tensors that it writes on this rank (where it writes none, those
// that it reads), whatever its schema returns.  Where it is waited for, each of them goes through a
// node "wait_tensor", also if the function has called it without `async_op`; what a function does
// not wait for before it uses it is waited for there, and the rest when the function returns.  So
// what is sent in the function has to be received while it runs.  The operators of
// _c10d_functional are nodes, too, where they are called through the dispatcher.
//
// A replay makes the same calls in the same order, on memory that is shared as it was; every rank
// of the groups replays it.  It differs from the function where that does not call operators:
//   - branches, sizes and numbers (item()) are those of the recording;
//   - tensors from outside of the function are its constants: they are kept, not copied, and what
//     the function does to them a replay does again; so it is with its inputs.  Those whose memory
//     is another's, as from_blob() makes them, are copied when they are first used;
//   - the first gradient of a leaf from outside, whose grad() was undefined before the function's
//     backward(), is not the leaf's in a replay: later ones are added to what is there;
//   - as_strided() goes by the offset of the recording, whatever that of the inputs is;
//   - what writes to memory past the operators (data_ptr(), accessor()) is not seen, but for what
//     is so written into at::empty() before an operator has, as at::tensor({1, 2}) does: those
//     values are constants;
//   - random numbers are drawn anew;
//   - results have no gradient, and the caller's autocast is not heeded;
//   - callbacks of a work's future are not seen.  While it is recorded, to ask for the future of a
//     collective on tensors that are copied (others than contiguous ones), or whether it is
//     completed when it is, waits for it; who waits for such a one on a thread that is not recorded
//     gets a c10::NotImplementedError where its tensors are used next.
//
// Errors: what the function throws ends the recording and leaves the thread as it was.  Inputs that
// share memory, and a replay with inputs of another number, sizes, strides, dtype, device or
// layout, are a c10::ValueError; a trace within a trace is a c10::Error, as is a replay when a
// group of the recording is gone: it has been destroyed, and nobody holds the c10d::ProcessGroup.
// An operator that is given a storage is a c10::NotImplementedError.  A replay within a trace is
// recorded as what it calls.  What a collective throws in a replay is a c10::DistBackendError that
// names the node; it comes when what else is under way has ended.
//
// Threads: a trace records the thread that makes it, and those on which its backward() goes on, or
// that have its at::ThreadLocalState, until it returns; several may be made at a time.  A Trace is
// cheap to copy, and replays on any thread, where those of a group are in the same order on every
// rank.
//
// From torch/fx/experimental/proxy_tensor.py.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "distrun/trace_graph.h"

namespace distrun {

class Trace {
 public:
  const Graph& graph() const { return *graph_; }

  // The graph as torch.fx prints it.
  std::string str() const;

  // What the function has returned, of these inputs.
  std::vector<at::Tensor> replay(const std::vector<at::Tensor>& inputs) const;

  explicit Trace(std::shared_ptr<const Graph> graph) : graph_(std::move(graph)) {}

 private:
  std::shared_ptr<const Graph> graph_;
};

// Calls the function once, with these inputs.
Trace trace(const std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)>& function,
            const std::vector<at::Tensor>& inputs);

}  // namespace distrun
