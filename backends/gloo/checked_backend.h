// CheckedBackend compares each call with the other ranks' before it passes the call on: the name,
// the number of the call, the reduce op, the root, dtypes, sizes, and what all_to_all divides; of
// send and recv the dtype and the number of elements.  A difference is a c10::Error on every rank
// that takes part, and nothing is sent.
//
//     c10::make_intrusive<CheckedBackend>(backend, make_gloo_backend(helper_request), ranks);
//
// Blocks: a collective until every rank has called one, also if it is asynchronous.  A send to a
// rank that receives from any rank ends when that rank waits.
// Cost: a monitored_barrier and an all_gather of 16 bytes for each collective; 24 bytes each way
// for each send.
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
  // `checks` is a backend of the same ranks, for the comparison alone.  `ranks` are the global
  // ones, by group rank.
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
  // Every rank's row of numbers; `mine` is as long on all ranks.
  std::vector<std::vector<std::int64_t>> gather_numbers(const std::vector<std::int64_t>& mine);

  const BackendPtr checks_;
  const std::vector<int> ranks_;
  const std::shared_ptr<Disagreements> disagreements_ = std::make_shared<Disagreements>();
  std::int64_t calls_ = 0;  // Collectives alone.
};

}  // namespace distrun::internal
