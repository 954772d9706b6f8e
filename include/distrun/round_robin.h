// A backend that spreads collectives over several groups of the same ranks: the first goes to the
// first group, the second to the second, and so on in a circle.
//
//     const auto group = c10::make_intrusive<distrun::RoundRobin>(
//         std::vector<c10::intrusive_ptr<c10d::Backend>>{gloo_a, gloo_b});
//     group->allreduce(xs)->wait();  // by gloo_a
//     group->allreduce(ys)->wait();  // by gloo_b
//
// What it is for: groups with a connection, a thread or a stream each can work side by side.
// Older releases of torch.distributed had it, as _round_robin_process_groups.
//
// Every rank makes the same collectives in the same order, as for any group: so every rank passes
// each one to the same group.  One that is refused has taken its turn all the same.
//
// send() and recv() are not there, because only two of the ranks would move on; nor is barrier(),
// which on one group says nothing of the others.  They throw c10::Error.
//
// setTimeout(), abort() and shutdown() are for all groups; what else c10d::Backend has (timing,
// errors, hooks, splitting) is not there either: ask the groups.
//
// Threads: collectives from one thread at a time.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace distrun {

class RoundRobin : public c10d::Backend {
 public:
  using BackendPtr = c10::intrusive_ptr<c10d::Backend>;
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;
  using Tensors = std::vector<at::Tensor>;
  using TensorLists = std::vector<Tensors>;

  // Throws c10::Error where there is no group, one is null, or they differ in this rank or in size.
  explicit RoundRobin(std::vector<BackendPtr> groups);

  const std::string getBackendName() const override { return "round_robin"; }

  void setTimeout(std::chrono::milliseconds timeout) override;
  void abort() override;
  void shutdown() override;

  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options = {}) override;
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options = {}) override;
  WorkPtr allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& options = {}) override;
  WorkPtr allreduce_coalesced(Tensors& tensors,
                              const c10d::AllreduceCoalescedOptions& options = {}) override;
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& options = {}) override;
  WorkPtr allgather(TensorLists& outputs, Tensors& inputs,
                    const c10d::AllgatherOptions& options = {}) override;
  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input,
                          const c10d::AllgatherOptions& options = {}) override;
  WorkPtr allgather_coalesced(TensorLists& outputs, Tensors& inputs,
                              const c10d::AllgatherOptions& options = {}) override;
  WorkPtr allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::AllgatherOptions& options = {}) override;
  WorkPtr gather(TensorLists& outputs, Tensors& inputs,
                 const c10d::GatherOptions& options = {}) override;
  WorkPtr scatter(Tensors& outputs, TensorLists& inputs,
                  const c10d::ScatterOptions& options = {}) override;
  WorkPtr reduce_scatter(Tensors& outputs, TensorLists& inputs,
                         const c10d::ReduceScatterOptions& options = {}) override;
  WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                               const c10d::ReduceScatterOptions& options = {}) override;
  WorkPtr reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::ReduceScatterOptions& options = {}) override;
  WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input,
                        std::vector<std::int64_t>& output_sizes,
                        std::vector<std::int64_t>& input_sizes,
                        const c10d::AllToAllOptions& options = {}) override;
  WorkPtr alltoall(Tensors& outputs, Tensors& inputs,
                   const c10d::AllToAllOptions& options = {}) override;

 private:
  c10d::Backend& next();

  const std::vector<BackendPtr> groups_;
  std::size_t turn_ = 0;  // Of the group that the next collective goes to.
};

}  // namespace distrun
