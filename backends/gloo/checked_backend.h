// CheckedBackend compares each call with the other ranks' calls before it passes it on. For a
// collective it compares name, number of the call, reduce op, root, dtypes, sizes, and the parts of
// all_to_all; for send and recv, dtype and number of elements. If they differ, every rank that
// takes part throws a c10::Error, and no tensor is sent.
//
//     c10::make_intrusive<CheckedBackend>(backend, make_gloo_backend(helper_request), ranks);
//
// Blocks: a collective, even an asynchronous one, until every rank has called one. A send to a rank
// that receives from any rank ends when that rank waits.
// Cost: per collective, a monitored_barrier and an all_gather of 16 bytes; for all_to_all, another
// all_gather of 16 bytes per rank. Per send, 16 bytes each way.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "backends/gloo/call_facts.h"
#include "backends/gloo/checked_transfer.h"
#include "backends/group/forwarding_backend.h"

namespace distrun::internal {

class CheckedBackend : public ForwardingBackend {
 public:
  // `checks` is a backend of the same ranks, used only for the comparison. `ranks` are global, by
  // group rank.
  CheckedBackend(BackendPtr backend, BackendPtr checks, std::vector<int> ranks);

  c10d::Backend& checks() const { return *checks_; }

  void setTimeout(std::chrono::milliseconds timeout) override;
  void abort() override;

  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPtr allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPtr allreduce_coalesced(Tensors& tensors,
                              const c10d::AllreduceCoalescedOptions& options) override;
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
  WorkPtr allgather(TensorLists& outputs, Tensors& inputs,
                    const c10d::AllgatherOptions& options) override;
  WorkPtr DISTRUN_ALL_GATHER_SINGLE(at::Tensor& output, at::Tensor& input,
                                    const c10d::AllgatherOptions& options) override;
  WorkPtr allgather_coalesced(TensorLists& outputs, Tensors& inputs,
                              const c10d::AllgatherOptions& options) override;
  WorkPtr DISTRUN_ALL_GATHER_SINGLE_COALESCED(Tensors& outputs, Tensors& inputs,
                                              const c10d::AllgatherOptions& options) override;
  WorkPtr gather(TensorLists& outputs, Tensors& inputs,
                 const c10d::GatherOptions& options) override;
#if DISTRUN_LIBTORCH_SINCE(2, 14)
  WorkPtr gather_single(at::Tensor& output, at::Tensor& input,
                        const c10d::GatherOptions& options) override;
#endif
  WorkPtr scatter(Tensors& outputs, TensorLists& inputs,
                  const c10d::ScatterOptions& options) override;
  WorkPtr reduce_scatter(Tensors& outputs, TensorLists& inputs,
                         const c10d::ReduceScatterOptions& options) override;
  WorkPtr DISTRUN_REDUCE_SCATTER_SINGLE(at::Tensor& output, at::Tensor& input,
                                        const c10d::ReduceScatterOptions& options) override;
  WorkPtr DISTRUN_REDUCE_SCATTER_SINGLE_COALESCED(
      Tensors& outputs, Tensors& inputs, const c10d::ReduceScatterOptions& options) override;
  WorkPtr DISTRUN_ALL_TO_ALL_SINGLE(at::Tensor& output, at::Tensor& input,
                                    std::vector<std::int64_t>& output_sizes,
                                    std::vector<std::int64_t>& input_sizes,
                                    const c10d::AllToAllOptions& options) override;
  WorkPtr alltoall(Tensors& outputs, Tensors& inputs,
                   const c10d::AllToAllOptions& options) override;
  WorkPtr barrier(const c10d::BarrierOptions& options) override;

  WorkPtr send(Tensors& tensors, int to, int tag) override;
  WorkPtr recv(Tensors& tensors, int from, int tag) override;
  WorkPtr recvAnysource(Tensors& tensors, int tag) override;

 private:
  void check(CallFacts facts);
  void check_rooted(const char* collective, std::int64_t root, CallFacts facts);
  void check_exchange(const at::Tensor& like, const Exchange& mine);
  std::vector<CallFacts> gather_facts(const std::string& mine,
                                      const std::vector<std::int64_t>& lengths);
  // Returns every rank's numbers. `mine` must be equally long on all ranks.
  std::vector<std::vector<std::int64_t>> gather_numbers(const std::vector<std::int64_t>& mine);

  const BackendPtr checks_;
  const std::vector<int> ranks_;
  const std::shared_ptr<Disagreements> disagreements_ = std::make_shared<Disagreements>();
  std::int64_t calls_ = 0;  // Collectives only.
};

}  // namespace distrun::internal
