// The backend of mutation.h: forwards to another with changed options or tensors, or returns
// another Work.
#pragma once

#include <vector>

#include "backends/group/forwarding_backend.h"
#include "testsuites/mutation/lost_output.h"
#include "testsuites/mutation/mutation.h"

namespace distrun {

class MutatedBackend : public internal::ForwardingBackend {
 public:
  MutatedBackend(c10::intrusive_ptr<c10d::Backend> inner, Mutation mutation);

  c10::intrusive_ptr<Backend> split(const c10::intrusive_ptr<c10d::Store>& store,
                                    const std::vector<int>& ranks,
                                    const c10::intrusive_ptr<Options>& opts) override;
  c10::intrusive_ptr<Backend> merge(const c10::intrusive_ptr<c10d::Store>& store,
                                    const c10::intrusive_ptr<Options>& opts, const int& rank,
                                    const int& size) override;

  WorkPtr broadcast(TensorList& tensors, const c10d::BroadcastOptions& opts) override;
  WorkPtr allreduce(TensorList& tensors, const c10d::AllreduceOptions& opts) override;
  WorkPtr allreduce_sparse(TensorList& tensors, const c10d::AllreduceOptions& opts) override;
  WorkPtr allreduce_coalesced(TensorList& tensors,
                              const c10d::AllreduceCoalescedOptions& opts) override;
  WorkPtr reduce(TensorList& tensors, const c10d::ReduceOptions& opts) override;
  WorkPtr allgather(TensorLists& outputs, TensorList& inputs,
                    const c10d::AllgatherOptions& opts) override;
  WorkPtr DISTRUN_ALL_GATHER_SINGLE(at::Tensor& output, at::Tensor& input,
                                    const c10d::AllgatherOptions& opts) override;
  WorkPtr allgather_coalesced(TensorLists& outputs, TensorList& inputs,
                              const c10d::AllgatherOptions& opts) override;
  WorkPtr DISTRUN_ALL_GATHER_SINGLE_COALESCED(TensorList& outputs, TensorList& inputs,
                                              const c10d::AllgatherOptions& opts) override;
  WorkPtr gather(TensorLists& outputs, TensorList& inputs,
                 const c10d::GatherOptions& opts) override;
  WorkPtr scatter(TensorList& outputs, TensorLists& inputs,
                  const c10d::ScatterOptions& opts) override;
  WorkPtr reduce_scatter(TensorList& outputs, TensorLists& inputs,
                         const c10d::ReduceScatterOptions& opts) override;
  WorkPtr DISTRUN_REDUCE_SCATTER_SINGLE(at::Tensor& output, at::Tensor& input,
                                        const c10d::ReduceScatterOptions& opts) override;
  WorkPtr DISTRUN_REDUCE_SCATTER_SINGLE_COALESCED(TensorList& outputs, TensorList& inputs,
                                                  const c10d::ReduceScatterOptions& opts) override;
  WorkPtr DISTRUN_ALL_TO_ALL_SINGLE(at::Tensor& output, at::Tensor& input,
                                    std::vector<std::int64_t>& output_sizes,
                                    std::vector<std::int64_t>& input_sizes,
                                    const c10d::AllToAllOptions& opts) override;
  WorkPtr alltoall(TensorList& outputs, TensorList& inputs,
                   const c10d::AllToAllOptions& opts) override;
  // Not send(): without a wait it would hang the receiver, which is another fault.
  WorkPtr recv(TensorList& tensors, int from, int tag) override;
  WorkPtr recvAnysource(TensorList& tensors, int tag) override;
  WorkPtr barrier(const c10d::BarrierOptions& opts) override;

 private:
  // The root to use instead; unchanged if `root` is invalid or the mutation keeps it.
  std::int64_t other_root(std::int64_t root) const;

  template <class Opts>
  Opts with_other_op(Opts opts, const TensorList& tensors) const;

  // Calls `act` with the outputs, or with copies if they must be lost.
  template <class Outputs, class Act>
  WorkPtr on_outputs(Outputs& outputs, const Act& act);
  template <class Outputs, class Act>
  WorkPtr on_copies(Outputs& outputs, const Act& act);

  WorkPtr gather_elsewhere(TensorLists& outputs, TensorList& inputs, c10d::GatherOptions opts);
  WorkPtr scatter_elsewhere(TensorList& outputs, TensorLists& inputs, c10d::ScatterOptions opts);

  Mutation mutation_;
  std::vector<WorkPtr> begun_;  // With dropped waits; tensors must stay alive.
};

}  // namespace distrun
