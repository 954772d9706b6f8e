#include "testsuites/gloo/collectives.h"

#include <utility>

#include <ATen/core/ivalue.h>

namespace distrun {

WorkPtr broadcast(c10d::Backend& group, TensorVector tensors, int root, int root_tensor) {
  return group.broadcast(tensors, {.rootRank = root, .rootTensor = root_tensor});
}

WorkPtr allreduce(c10d::Backend& group, TensorVector tensors, c10d::ReduceOp op) {
  return group.allreduce(tensors, {.reduceOp = std::move(op)});
}

WorkPtr allreduce_coalesced(c10d::Backend& group, TensorVector tensors, c10d::ReduceOp op) {
  c10d::AllreduceCoalescedOptions options;
  options.reduceOp = std::move(op);
  return group.allreduce_coalesced(tensors, options);
}

WorkPtr reduce(c10d::Backend& group, TensorVector tensors, int root, c10d::ReduceOp op,
               int root_tensor) {
  return group.reduce(tensors,
                      {.reduceOp = std::move(op), .rootRank = root, .rootTensor = root_tensor});
}

WorkPtr allgather(c10d::Backend& group, TensorVectors outputs, TensorVector inputs) {
  return group.allgather(outputs, inputs);
}

WorkPtr allgather_coalesced(c10d::Backend& group, TensorVectors outputs, TensorVector inputs) {
  return group.allgather_coalesced(outputs, inputs);
}

WorkPtr gather(c10d::Backend& group, TensorVectors outputs, TensorVector inputs, int root) {
  return group.gather(outputs, inputs, {.rootRank = root});
}

WorkPtr scatter(c10d::Backend& group, TensorVector outputs, TensorVectors inputs, int root) {
  return group.scatter(outputs, inputs, {.rootRank = root});
}

namespace {

c10::IValue value_of(const WorkPtr& work) {
  const auto future = work->getFuture();
  future->waitAndThrow();
  return future->value();
}

}  // namespace

TensorVector result_of(const WorkPtr& work) { return value_of(work).toTensorVector(); }

TensorVectors results_of(const WorkPtr& work) { return value_of(work).to<TensorVectors>(); }

}  // namespace distrun
