#include "testsuites/mutation/mutated_backend.h"

#include <algorithm>
#include <utility>

#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros_like.h>

namespace distrun {

namespace {

using WorkPtr = MutatedBackend::WorkPtr;

c10d::ReduceOp wrong_op(const c10d::ReduceOp& op) {
  switch (op) {
    case c10d::ReduceOp::SUM:
      return c10d::ReduceOp::PRODUCT;
    case c10d::ReduceOp::PRODUCT:
      return c10d::ReduceOp::SUM;
    case c10d::ReduceOp::MIN:
    case c10d::ReduceOp::AVG:
      return c10d::ReduceOp::MAX;
    case c10d::ReduceOp::MAX:
      return c10d::ReduceOp::MIN;
    case c10d::ReduceOp::BAND:
      return c10d::ReduceOp::BOR;
    case c10d::ReduceOp::BOR:
      return c10d::ReduceOp::BXOR;
    case c10d::ReduceOp::BXOR:
      return c10d::ReduceOp::BAND;
    default:
      return op;
  }
}

bool has_sparse(const TensorList& tensors) {
  return std::any_of(tensors.begin(), tensors.end(), [](const at::Tensor& tensor) {
    return tensor.defined() && tensor.is_sparse();
  });
}

}  // namespace

MutatedBackend::MutatedBackend(c10::intrusive_ptr<c10d::Backend> inner, Mutation mutation)
    : ForwardingBackend(std::move(inner)), mutation_(mutation) {}

c10::intrusive_ptr<c10d::Backend> MutatedBackend::split(
    const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
    const c10::intrusive_ptr<Options>& opts) {
  auto part = inner().split(store, ranks, opts);
  return part ? mutated(std::move(part), mutation_) : part;
}

c10::intrusive_ptr<c10d::Backend> MutatedBackend::merge(
    const c10::intrusive_ptr<c10d::Store>& store, const c10::intrusive_ptr<Options>& opts,
    const int& rank, const int& size) {
  return mutated(inner().merge(store, opts, rank, size), mutation_);
}

std::int64_t MutatedBackend::other_root(std::int64_t root) const {
  if (mutation_ != Mutation::kWrongRoot || root < 0 || root >= getSize()) return root;
  return (root + 1) % getSize();
}

template <class Opts>
Opts MutatedBackend::with_other_op(Opts opts, const TensorList& tensors) const {
  if (mutation_ == Mutation::kMissingDivision && opts.reduceOp == c10d::ReduceOp::AVG) {
    opts.reduceOp = c10d::ReduceOp::SUM;
  }
  if (mutation_ == Mutation::kWrongReduceOp && !has_sparse(tensors)) {
    opts.reduceOp = wrong_op(opts.reduceOp);
  }
  return opts;
}

template <class Outputs, class Act>
WorkPtr MutatedBackend::on_outputs(Outputs& outputs, const Act& act) {
  const bool drops_wait = mutation_ == Mutation::kDroppedWait;
  const bool is_stale = mutation_ == Mutation::kStaleOutput && getRank() == 1;
  if (!drops_wait && !is_stale) return act(outputs);
  return on_copies(outputs, act);
}

template <class Outputs, class Act>
WorkPtr MutatedBackend::on_copies(Outputs& outputs, const Act& act) {
  const bool drops_wait = mutation_ == Mutation::kDroppedWait;
  Outputs copies = copies_of(outputs);
  WorkPtr work = act(copies);
  if (drops_wait) begun_.push_back(work);
  return c10::make_intrusive<LostOutput>(
      work, lists_of(outputs), drops_wait ? LostOutput::Wait::kDropped : LostOutput::Wait::kAsEver);
}

WorkPtr MutatedBackend::broadcast(TensorList& tensors, const c10d::BroadcastOptions& opts) {
  auto changed = opts;
  changed.rootRank = other_root(opts.rootRank);
  return on_outputs(tensors, [&](auto& out) { return inner().broadcast(out, changed); });
}

WorkPtr MutatedBackend::allreduce(TensorList& tensors, const c10d::AllreduceOptions& opts) {
  const auto changed = with_other_op(opts, tensors);
  return on_outputs(tensors, [&](auto& out) { return inner().allreduce(out, changed); });
}

WorkPtr MutatedBackend::allreduce_sparse(TensorList& tensors, const c10d::AllreduceOptions& opts) {
  const auto changed = with_other_op(opts, tensors);
  return on_outputs(tensors, [&](auto& out) { return inner().allreduce_sparse(out, changed); });
}

WorkPtr MutatedBackend::allreduce_coalesced(TensorList& tensors,
                                            const c10d::AllreduceCoalescedOptions& opts) {
  const auto changed = with_other_op(opts, tensors);
  return on_outputs(tensors, [&](auto& out) { return inner().allreduce_coalesced(out, changed); });
}

WorkPtr MutatedBackend::reduce(TensorList& tensors, const c10d::ReduceOptions& opts) {
  auto changed = with_other_op(opts, tensors);
  changed.rootRank = other_root(opts.rootRank);
  const auto act = [&](auto& out) { return inner().reduce(out, changed); };
  // Gloo uses all ranks' tensors for partial sums, so the true root needs a copy, too.
  if (changed.rootRank != opts.rootRank && getRank() != changed.rootRank) {
    return on_copies(tensors, act);
  }
  return on_outputs(tensors, act);
}

WorkPtr MutatedBackend::allgather(TensorLists& outputs, TensorList& inputs,
                                  const c10d::AllgatherOptions& opts) {
  return on_outputs(outputs, [&](auto& out) { return inner().allgather(out, inputs, opts); });
}

WorkPtr MutatedBackend::DISTRUN_ALL_GATHER_SINGLE(at::Tensor& output, at::Tensor& input,
                                                  const c10d::AllgatherOptions& opts) {
  return on_outputs(output,
                    [&](auto& out) { return inner().DISTRUN_ALL_GATHER_SINGLE(out, input, opts); });
}

WorkPtr MutatedBackend::allgather_coalesced(TensorLists& outputs, TensorList& inputs,
                                            const c10d::AllgatherOptions& opts) {
  return on_outputs(outputs,
                    [&](auto& out) { return inner().allgather_coalesced(out, inputs, opts); });
}

WorkPtr MutatedBackend::DISTRUN_ALL_GATHER_SINGLE_COALESCED(TensorList& outputs, TensorList& inputs,
                                                            const c10d::AllgatherOptions& opts) {
  return on_outputs(outputs, [&](auto& out) {
    return inner().DISTRUN_ALL_GATHER_SINGLE_COALESCED(out, inputs, opts);
  });
}

WorkPtr MutatedBackend::gather(TensorLists& outputs, TensorList& inputs,
                               const c10d::GatherOptions& opts) {
  if (other_root(opts.rootRank) != opts.rootRank) return gather_elsewhere(outputs, inputs, opts);
  return on_outputs(outputs, [&](auto& out) { return inner().gather(out, inputs, opts); });
}

WorkPtr MutatedBackend::gather_elsewhere(TensorLists& outputs, TensorList& inputs,
                                         c10d::GatherOptions opts) {
  const auto size = static_cast<std::size_t>(getSize());
  const bool is_root = getRank() == opts.rootRank;
  const bool is_valid =
      inputs.size() == 1 &&
      (is_root ? outputs.size() == 1 && outputs.front().size() == size : outputs.empty());
  if (!is_valid) return inner().gather(outputs, inputs, opts);
  opts.rootRank = other_root(opts.rootRank);
  TensorLists others;
  if (getRank() == opts.rootRank) {
    others.resize(1);
    for (std::size_t i = 0; i < size; ++i) others[0].push_back(at::empty_like(inputs[0]));
  }
  return inner().gather(others, inputs, opts);
}

WorkPtr MutatedBackend::scatter(TensorList& outputs, TensorLists& inputs,
                                const c10d::ScatterOptions& opts) {
  if (other_root(opts.rootRank) != opts.rootRank) return scatter_elsewhere(outputs, inputs, opts);
  return on_outputs(outputs, [&](auto& out) { return inner().scatter(out, inputs, opts); });
}

WorkPtr MutatedBackend::scatter_elsewhere(TensorList& outputs, TensorLists& inputs,
                                          c10d::ScatterOptions opts) {
  const auto size = static_cast<std::size_t>(getSize());
  const bool is_root = getRank() == opts.rootRank;
  const bool is_valid =
      outputs.size() == 1 &&
      (is_root ? inputs.size() == 1 && inputs.front().size() == size : inputs.empty());
  if (!is_valid) return inner().scatter(outputs, inputs, opts);
  opts.rootRank = other_root(opts.rootRank);
  TensorLists others;
  if (getRank() == opts.rootRank) others = {TensorList(size, at::zeros_like(outputs[0]))};
  return inner().scatter(outputs, others, opts);
}

WorkPtr MutatedBackend::reduce_scatter(TensorList& outputs, TensorLists& inputs,
                                       const c10d::ReduceScatterOptions& opts) {
  const auto changed = with_other_op(opts, outputs);
  return on_outputs(outputs,
                    [&](auto& out) { return inner().reduce_scatter(out, inputs, changed); });
}

WorkPtr MutatedBackend::DISTRUN_REDUCE_SCATTER_SINGLE(at::Tensor& output, at::Tensor& input,
                                                      const c10d::ReduceScatterOptions& opts) {
  const auto changed = with_other_op(opts, {output});
  return on_outputs(output, [&](auto& out) {
    return inner().DISTRUN_REDUCE_SCATTER_SINGLE(out, input, changed);
  });
}

WorkPtr MutatedBackend::DISTRUN_REDUCE_SCATTER_SINGLE_COALESCED(
    TensorList& outputs, TensorList& inputs, const c10d::ReduceScatterOptions& opts) {
  const auto changed = with_other_op(opts, outputs);
  return on_outputs(outputs, [&](auto& out) {
    return inner().DISTRUN_REDUCE_SCATTER_SINGLE_COALESCED(out, inputs, changed);
  });
}

WorkPtr MutatedBackend::DISTRUN_ALL_TO_ALL_SINGLE(at::Tensor& output, at::Tensor& input,
                                                  std::vector<std::int64_t>& output_sizes,
                                                  std::vector<std::int64_t>& input_sizes,
                                                  const c10d::AllToAllOptions& opts) {
  return on_outputs(output, [&](auto& out) {
    return inner().DISTRUN_ALL_TO_ALL_SINGLE(out, input, output_sizes, input_sizes, opts);
  });
}

WorkPtr MutatedBackend::alltoall(TensorList& outputs, TensorList& inputs,
                                 const c10d::AllToAllOptions& opts) {
  return on_outputs(outputs, [&](auto& out) { return inner().alltoall(out, inputs, opts); });
}

WorkPtr MutatedBackend::recv(TensorList& tensors, int from, int tag) {
  return on_outputs(tensors, [&](auto& out) { return inner().recv(out, from, tag); });
}

WorkPtr MutatedBackend::recvAnysource(TensorList& tensors, int tag) {
  return on_outputs(tensors, [&](auto& out) { return inner().recvAnysource(out, tag); });
}

WorkPtr MutatedBackend::barrier(const c10d::BarrierOptions& opts) {
  TensorList none;
  return on_outputs(none, [&](auto&) { return inner().barrier(opts); });
}

}  // namespace distrun
