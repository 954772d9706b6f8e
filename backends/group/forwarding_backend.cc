#include "backends/group/forwarding_backend.h"

#include <utility>

#include <c10/util/Exception.h>

namespace distrun::internal {

ForwardingCollectives::WorkPtr ForwardingCollectives::broadcast(
    Tensors& tensors, const c10d::BroadcastOptions& options) {
  return for_collective().broadcast(tensors, options);
}

ForwardingCollectives::WorkPtr ForwardingCollectives::allreduce(
    Tensors& tensors, const c10d::AllreduceOptions& options) {
  return for_collective().allreduce(tensors, options);
}

ForwardingCollectives::WorkPtr ForwardingCollectives::allreduce_sparse(
    Tensors& tensors, const c10d::AllreduceOptions& options) {
  return for_collective().allreduce_sparse(tensors, options);
}

ForwardingCollectives::WorkPtr ForwardingCollectives::allreduce_coalesced(
    Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) {
  return for_collective().allreduce_coalesced(tensors, options);
}

ForwardingCollectives::WorkPtr ForwardingCollectives::reduce(Tensors& tensors,
                                                             const c10d::ReduceOptions& options) {
  return for_collective().reduce(tensors, options);
}

ForwardingCollectives::WorkPtr ForwardingCollectives::allgather(
    TensorLists& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) {
  return for_collective().allgather(outputs, inputs, options);
}

ForwardingCollectives::WorkPtr ForwardingCollectives::DISTRUN_ALL_GATHER_SINGLE(
    at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) {
  return for_collective().DISTRUN_ALL_GATHER_SINGLE(output, input, options);
}

ForwardingCollectives::WorkPtr ForwardingCollectives::allgather_coalesced(
    TensorLists& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) {
  return for_collective().allgather_coalesced(outputs, inputs, options);
}

ForwardingCollectives::WorkPtr ForwardingCollectives::DISTRUN_ALL_GATHER_SINGLE_COALESCED(
    Tensors& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) {
  return for_collective().DISTRUN_ALL_GATHER_SINGLE_COALESCED(outputs, inputs, options);
}

ForwardingCollectives::WorkPtr ForwardingCollectives::gather(TensorLists& outputs, Tensors& inputs,
                                                             const c10d::GatherOptions& options) {
  return for_collective().gather(outputs, inputs, options);
}

#if DISTRUN_LIBTORCH_SINCE(2, 14)
ForwardingCollectives::WorkPtr ForwardingCollectives::gather_single(
    at::Tensor& output, at::Tensor& input, const c10d::GatherOptions& options) {
  return for_collective().gather_single(output, input, options);
}
#endif

ForwardingCollectives::WorkPtr ForwardingCollectives::scatter(Tensors& outputs, TensorLists& inputs,
                                                              const c10d::ScatterOptions& options) {
  return for_collective().scatter(outputs, inputs, options);
}

ForwardingCollectives::WorkPtr ForwardingCollectives::reduce_scatter(
    Tensors& outputs, TensorLists& inputs, const c10d::ReduceScatterOptions& options) {
  return for_collective().reduce_scatter(outputs, inputs, options);
}

ForwardingCollectives::WorkPtr ForwardingCollectives::DISTRUN_REDUCE_SCATTER_SINGLE(
    at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& options) {
  return for_collective().DISTRUN_REDUCE_SCATTER_SINGLE(output, input, options);
}

ForwardingCollectives::WorkPtr ForwardingCollectives::DISTRUN_REDUCE_SCATTER_SINGLE_COALESCED(
    Tensors& outputs, Tensors& inputs, const c10d::ReduceScatterOptions& options) {
  return for_collective().DISTRUN_REDUCE_SCATTER_SINGLE_COALESCED(outputs, inputs, options);
}

ForwardingCollectives::WorkPtr ForwardingCollectives::DISTRUN_ALL_TO_ALL_SINGLE(
    at::Tensor& output, at::Tensor& input, std::vector<std::int64_t>& output_sizes,
    std::vector<std::int64_t>& input_sizes, const c10d::AllToAllOptions& options) {
  return for_collective().DISTRUN_ALL_TO_ALL_SINGLE(output, input, output_sizes, input_sizes,
                                                    options);
}

ForwardingCollectives::WorkPtr ForwardingCollectives::alltoall(
    Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) {
  return for_collective().alltoall(outputs, inputs, options);
}

namespace {

const c10d::Backend& checked_inner(const ForwardingCollectives::BackendPtr& inner) {
  TORCH_CHECK_VALUE(inner, "there is no backend to pass collectives on to");
  return *inner;
}

}  // namespace

ForwardingBackend::ForwardingBackend(BackendPtr inner)
    : ForwardingCollectives(checked_inner(inner).getRank(), checked_inner(inner).getSize()),
      inner_(std::move(inner)) {}

void ForwardingBackend::setGroupUid(const std::string& uid) {
  Backend::setGroupUid(uid);
  inner_->setGroupUid(uid);
}

ForwardingCollectives::BackendPtr ForwardingBackend::split(
    const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
    const c10::intrusive_ptr<Options>& options) {
  return inner_->split(store, ranks, options);
}

ForwardingCollectives::BackendPtr ForwardingBackend::merge(
    const c10::intrusive_ptr<c10d::Store>& store, const c10::intrusive_ptr<Options>& options,
    const int& rank, const int& size) {
  return inner_->merge(store, options, rank, size);
}

ForwardingCollectives::WorkPtr ForwardingBackend::send(Tensors& tensors, int to, int tag) {
  return inner_->send(tensors, to, tag);
}

ForwardingCollectives::WorkPtr ForwardingBackend::recv(Tensors& tensors, int from, int tag) {
  return inner_->recv(tensors, from, tag);
}

ForwardingCollectives::WorkPtr ForwardingBackend::recvAnysource(Tensors& tensors, int tag) {
  return inner_->recvAnysource(tensors, tag);
}

ForwardingCollectives::WorkPtr ForwardingBackend::barrier(const c10d::BarrierOptions& options) {
  return inner_->barrier(options);
}

void ForwardingBackend::monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) {
  inner_->monitoredBarrier(options, wait_all_ranks);
}

}  // namespace distrun::internal
