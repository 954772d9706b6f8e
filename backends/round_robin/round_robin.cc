#include "distrun/round_robin.h"

#include <utility>

#include <c10/util/Exception.h>

namespace distrun {

namespace {

// The first of them: all have its rank and size.
const c10d::Backend& model_of(const std::vector<RoundRobin::BackendPtr>& groups) {
  TORCH_CHECK(!groups.empty(), "round robin: no group to pass collectives to");
  for (std::size_t i = 0; i < groups.size(); ++i) {
    TORCH_CHECK(groups[i], "round robin: group ", i, " of ", groups.size(), " is null");
  }
  const c10d::Backend& model = *groups.front();
  for (const auto& group : groups) {
    TORCH_CHECK(group->getRank() == model.getRank() && group->getSize() == model.getSize(),
                "round robin: the groups are not of the same ranks: this is rank ", model.getRank(),
                " of ", model.getSize(), " in the first and rank ", group->getRank(), " of ",
                group->getSize(), " in another");
  }
  return model;
}

}  // namespace

RoundRobin::RoundRobin(std::vector<BackendPtr> groups)
    : Backend(model_of(groups).getRank(), model_of(groups).getSize()), groups_(std::move(groups)) {}

void RoundRobin::setTimeout(std::chrono::milliseconds timeout) {
  for (const auto& group : groups_) group->setTimeout(timeout);
}

void RoundRobin::abort() {
  for (const auto& group : groups_) group->abort();
}

void RoundRobin::shutdown() {
  for (const auto& group : groups_) group->shutdown();
}

c10d::Backend& RoundRobin::next() {
  c10d::Backend& group = *groups_[turn_];
  turn_ = (turn_ + 1) % groups_.size();
  return group;
}

RoundRobin::WorkPtr RoundRobin::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  return next().broadcast(tensors, options);
}

RoundRobin::WorkPtr RoundRobin::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  return next().allreduce(tensors, options);
}

RoundRobin::WorkPtr RoundRobin::allreduce_sparse(Tensors& tensors,
                                                 const c10d::AllreduceOptions& options) {
  return next().allreduce_sparse(tensors, options);
}

RoundRobin::WorkPtr RoundRobin::allreduce_coalesced(
    Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) {
  return next().allreduce_coalesced(tensors, options);
}

RoundRobin::WorkPtr RoundRobin::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  return next().reduce(tensors, options);
}

RoundRobin::WorkPtr RoundRobin::allgather(TensorLists& outputs, Tensors& inputs,
                                          const c10d::AllgatherOptions& options) {
  return next().allgather(outputs, inputs, options);
}

RoundRobin::WorkPtr RoundRobin::_allgather_base(at::Tensor& output, at::Tensor& input,
                                                const c10d::AllgatherOptions& options) {
  return next()._allgather_base(output, input, options);
}

RoundRobin::WorkPtr RoundRobin::allgather_coalesced(TensorLists& outputs, Tensors& inputs,
                                                    const c10d::AllgatherOptions& options) {
  return next().allgather_coalesced(outputs, inputs, options);
}

RoundRobin::WorkPtr RoundRobin::allgather_into_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) {
  return next().allgather_into_tensor_coalesced(outputs, inputs, options);
}

RoundRobin::WorkPtr RoundRobin::gather(TensorLists& outputs, Tensors& inputs,
                                       const c10d::GatherOptions& options) {
  return next().gather(outputs, inputs, options);
}

RoundRobin::WorkPtr RoundRobin::scatter(Tensors& outputs, TensorLists& inputs,
                                        const c10d::ScatterOptions& options) {
  return next().scatter(outputs, inputs, options);
}

RoundRobin::WorkPtr RoundRobin::reduce_scatter(Tensors& outputs, TensorLists& inputs,
                                               const c10d::ReduceScatterOptions& options) {
  return next().reduce_scatter(outputs, inputs, options);
}

RoundRobin::WorkPtr RoundRobin::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                                     const c10d::ReduceScatterOptions& options) {
  return next()._reduce_scatter_base(output, input, options);
}

RoundRobin::WorkPtr RoundRobin::reduce_scatter_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::ReduceScatterOptions& options) {
  return next().reduce_scatter_tensor_coalesced(outputs, inputs, options);
}

RoundRobin::WorkPtr RoundRobin::alltoall_base(at::Tensor& output, at::Tensor& input,
                                              std::vector<std::int64_t>& output_sizes,
                                              std::vector<std::int64_t>& input_sizes,
                                              const c10d::AllToAllOptions& options) {
  return next().alltoall_base(output, input, output_sizes, input_sizes, options);
}

RoundRobin::WorkPtr RoundRobin::alltoall(Tensors& outputs, Tensors& inputs,
                                         const c10d::AllToAllOptions& options) {
  return next().alltoall(outputs, inputs, options);
}

}  // namespace distrun
