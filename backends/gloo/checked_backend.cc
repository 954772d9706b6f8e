#include "backends/gloo/checked_backend.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

#include "backends/group/collective_checks.h"

namespace distrun::internal {

namespace {

using Tensors = ForwardingCollectives::Tensors;
using Numbers = std::vector<std::int64_t>;

std::string dtypes_of(const Tensors& tensors) {
  std::string text;
  for (const at::Tensor& one : tensors) {
    text += (text.empty() ? "" : ", ") + std::string(c10::toString(one.scalar_type()));
  }
  return text;
}

std::string sizes_of(const Tensors& tensors) {
  std::string text;
  for (const at::Tensor& one : tensors) {
    text += (text.empty() ? "" : ", ") + c10::str(one.sizes());
    if (one.layout() != at::kStrided) text += c10::str(" ", one.layout());
  }
  return text;
}

CallFacts facts_of(const char* collective, const Tensors& tensors) {
  return {{"collective", collective}, {"dtype", dtypes_of(tensors)}, {"size", sizes_of(tensors)}};
}

CallFacts with_op(CallFacts facts, const c10d::ReduceOp& op) {
  facts.push_back({"reduce op", name_of(op)});
  return facts;
}

Numbers numels_of(const Tensors& tensors) {
  Numbers numels;
  for (const at::Tensor& one : tensors) numels.push_back(one.numel());
  return numels;
}

// Elements of each rank's part; the parts are equal if `sizes` is empty.
Numbers counts_of(const at::Tensor& tensor, const Numbers& sizes, int ranks) {
  if (sizes.empty()) return Numbers(static_cast<std::size_t>(ranks), tensor.numel() / ranks);
  const std::int64_t row = tensor.size(0) == 0 ? 0 : tensor.numel() / tensor.size(0);
  Numbers parts;
  for (const std::int64_t size : sizes) parts.push_back(size * row);
  return parts;
}

}  // namespace

CheckedBackend::CheckedBackend(BackendPtr backend, BackendPtr checks, std::vector<int> ranks)
    : ForwardingBackend(std::move(backend)), checks_(std::move(checks)), ranks_(std::move(ranks)) {}

void CheckedBackend::setTimeout(std::chrono::milliseconds timeout) {
  checks_->setTimeout(timeout);
  ForwardingBackend::setTimeout(timeout);
}

void CheckedBackend::abort() {
  checks_->abort();
  ForwardingBackend::abort();
}

std::vector<Numbers> CheckedBackend::gather_numbers(const Numbers& mine) {
  Tensors inputs = {at::tensor(mine, at::kLong)};
  TensorLists outputs(1);
  for (int rank = 0; rank < getSize(); ++rank) outputs[0].push_back(at::empty_like(inputs[0]));
  checks_->allgather(outputs, inputs)->wait();
  std::vector<Numbers> all;
  for (const at::Tensor& one : outputs[0]) {
    const auto* begin = one.const_data_ptr<std::int64_t>();
    all.emplace_back(begin, begin + one.numel());
  }
  return all;
}

std::vector<CallFacts> CheckedBackend::gather_facts(const std::string& mine,
                                                    const Numbers& lengths) {
  const std::int64_t longest = *std::max_element(lengths.begin(), lengths.end());
  Tensors inputs = {at::zeros({longest}, at::kByte)};
  std::memcpy(inputs[0].data_ptr(), mine.data(), mine.size());
  TensorLists outputs(1);
  for (int rank = 0; rank < getSize(); ++rank) outputs[0].push_back(at::empty_like(inputs[0]));
  checks_->allgather(outputs, inputs)->wait();
  std::vector<CallFacts> all;
  for (std::size_t rank = 0; rank < lengths.size(); ++rank) {
    all.push_back(to_facts({static_cast<const char*>(outputs[0][rank].const_data_ptr()),
                            static_cast<std::size_t>(lengths[rank])}));
  }
  return all;
}

void CheckedBackend::check(CallFacts facts) {
  const std::int64_t call = ++calls_;
  facts.push_back({"number of the call", std::to_string(call)});
  const std::string mine = to_text(facts);
  // Its error names missing ranks.
  checks_->monitoredBarrier({}, /*waitAllRanks=*/true);
  const auto all = gather_numbers(
      {static_cast<std::int64_t>(fingerprint(mine)), static_cast<std::int64_t>(mine.size())});
  const bool agree =
      std::all_of(all.begin(), all.end(), [&](const Numbers& one) { return one == all.front(); });
  if (agree) return;
  Numbers lengths;
  for (const Numbers& one : all) lengths.push_back(one[1]);
  TORCH_CHECK(false, "ranks disagree: ", disagreement(gather_facts(mine, lengths), ranks_),
              " (call ", call, " of this group on this rank)");
}

void CheckedBackend::check_rooted(const char* collective, std::int64_t root, CallFacts facts) {
  facts.front().value = collective;
  const int global = ranks_.at(static_cast<std::size_t>(root));
  facts.insert(facts.begin() + 1, {"root", "rank " + std::to_string(global)});
  check(std::move(facts));
}

// Lists and single tensors share a name: they send the same bytes, so ranks may mix them.
void CheckedBackend::check_exchange(const at::Tensor& like, const Exchange& mine) {
  check({{"collective", "all_to_all"}, {"dtype", dtypes_of({like})}});
  Numbers numbers = mine.sent;
  numbers.insert(numbers.end(), mine.expected.begin(), mine.expected.end());
  std::vector<Exchange> all;
  for (const Numbers& its : gather_numbers(numbers)) {
    const auto middle = its.begin() + getSize();
    all.push_back({.sent = {its.begin(), middle}, .expected = {middle, its.end()}});
  }
  const std::string difference = disagreement(all, ranks_);
  TORCH_CHECK(difference.empty(), "ranks disagree: ", difference);
}

using WorkPtr = ForwardingCollectives::WorkPtr;

WorkPtr CheckedBackend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  check_rooted("broadcast", options.rootRank, facts_of("", tensors));
  return ForwardingBackend::broadcast(tensors, options);
}

WorkPtr CheckedBackend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  check(with_op(facts_of("all_reduce", tensors), options.reduceOp));
  return ForwardingBackend::allreduce(tensors, options);
}

WorkPtr CheckedBackend::allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& options) {
  check(with_op(facts_of("all_reduce", tensors), options.reduceOp));
  return ForwardingBackend::allreduce_sparse(tensors, options);
}

WorkPtr CheckedBackend::allreduce_coalesced(Tensors& tensors,
                                            const c10d::AllreduceCoalescedOptions& options) {
  check(with_op(facts_of("all_reduce_coalesced", tensors), options.reduceOp));
  return ForwardingBackend::allreduce_coalesced(tensors, options);
}

WorkPtr CheckedBackend::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  check_rooted("reduce", options.rootRank, with_op(facts_of("", tensors), options.reduceOp));
  return ForwardingBackend::reduce(tensors, options);
}

WorkPtr CheckedBackend::allgather(TensorLists& outputs, Tensors& inputs,
                                  const c10d::AllgatherOptions& options) {
  check(facts_of("all_gather", inputs));
  return ForwardingBackend::allgather(outputs, inputs, options);
}

WorkPtr CheckedBackend::DISTRUN_ALL_GATHER_SINGLE(at::Tensor& output, at::Tensor& input,
                                                  const c10d::AllgatherOptions& options) {
  check(facts_of("all_gather_into_tensor", {input}));
  return ForwardingBackend::DISTRUN_ALL_GATHER_SINGLE(output, input, options);
}

WorkPtr CheckedBackend::allgather_coalesced(TensorLists& outputs, Tensors& inputs,
                                            const c10d::AllgatherOptions& options) {
  check(facts_of("all_gather_coalesced", inputs));
  return ForwardingBackend::allgather_coalesced(outputs, inputs, options);
}

WorkPtr CheckedBackend::DISTRUN_ALL_GATHER_SINGLE_COALESCED(Tensors& outputs, Tensors& inputs,
                                                            const c10d::AllgatherOptions& options) {
  check(facts_of("all_gather_into_tensor_coalesced", inputs));
  return ForwardingBackend::DISTRUN_ALL_GATHER_SINGLE_COALESCED(outputs, inputs, options);
}

WorkPtr CheckedBackend::gather(TensorLists& outputs, Tensors& inputs,
                               const c10d::GatherOptions& options) {
  check_rooted("gather", options.rootRank, facts_of("", inputs));
  return ForwardingBackend::gather(outputs, inputs, options);
}

#if DISTRUN_LIBTORCH_SINCE(2, 14)
WorkPtr CheckedBackend::gather_single(at::Tensor& output, at::Tensor& input,
                                      const c10d::GatherOptions& options) {
  check_rooted("gather", options.rootRank, facts_of("", {input}));
  return ForwardingBackend::gather_single(output, input, options);
}
#endif

WorkPtr CheckedBackend::scatter(Tensors& outputs, TensorLists& inputs,
                                const c10d::ScatterOptions& options) {
  check_rooted("scatter", options.rootRank, facts_of("", outputs));
  return ForwardingBackend::scatter(outputs, inputs, options);
}

WorkPtr CheckedBackend::reduce_scatter(Tensors& outputs, TensorLists& inputs,
                                       const c10d::ReduceScatterOptions& options) {
  check(with_op(facts_of("reduce_scatter", outputs), options.reduceOp));
  return ForwardingBackend::reduce_scatter(outputs, inputs, options);
}

WorkPtr CheckedBackend::DISTRUN_REDUCE_SCATTER_SINGLE(at::Tensor& output, at::Tensor& input,
                                                      const c10d::ReduceScatterOptions& options) {
  check(with_op(facts_of("reduce_scatter_tensor", {output}), options.reduceOp));
  return ForwardingBackend::DISTRUN_REDUCE_SCATTER_SINGLE(output, input, options);
}

WorkPtr CheckedBackend::DISTRUN_REDUCE_SCATTER_SINGLE_COALESCED(
    Tensors& outputs, Tensors& inputs, const c10d::ReduceScatterOptions& options) {
  check(with_op(facts_of("reduce_scatter_tensor_coalesced", outputs), options.reduceOp));
  return ForwardingBackend::DISTRUN_REDUCE_SCATTER_SINGLE_COALESCED(outputs, inputs, options);
}

WorkPtr CheckedBackend::DISTRUN_ALL_TO_ALL_SINGLE(at::Tensor& output, at::Tensor& input,
                                                  Numbers& output_sizes, Numbers& input_sizes,
                                                  const c10d::AllToAllOptions& options) {
  check_exchange(input, {.sent = counts_of(input, input_sizes, getSize()),
                         .expected = counts_of(output, output_sizes, getSize())});
  return ForwardingBackend::DISTRUN_ALL_TO_ALL_SINGLE(output, input, output_sizes, input_sizes,
                                                      options);
}

WorkPtr CheckedBackend::alltoall(Tensors& outputs, Tensors& inputs,
                                 const c10d::AllToAllOptions& options) {
  check_exchange(inputs.at(0), {.sent = numels_of(inputs), .expected = numels_of(outputs)});
  return ForwardingBackend::alltoall(outputs, inputs, options);
}

WorkPtr CheckedBackend::barrier(const c10d::BarrierOptions& options) {
  check({{"collective", "barrier"}});
  return ForwardingBackend::barrier(options);
}

WorkPtr CheckedBackend::send(Tensors& tensors, int to, int tag) {
  return checked_send({inner(), *checks_, ranks_, disagreements_}, tensors, to, tag);
}

WorkPtr CheckedBackend::recv(Tensors& tensors, int from, int tag) {
  return checked_receive({inner(), *checks_, ranks_, disagreements_}, tensors, from, tag);
}

WorkPtr CheckedBackend::recvAnysource(Tensors& tensors, int tag) {
  return checked_receive({inner(), *checks_, ranks_, disagreements_}, tensors, std::nullopt, tag);
}

}  // namespace distrun::internal
