#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/util/Exception.h>

#include "backends/fake/fake_backend.h"
#include "backends/fake/fake_tensors.h"
#include "backends/group/rows.h"

namespace distrun::internal {

using c10d::OpType;

namespace {

// Writes bypass autograd, like those of other backends.
using PastAutograd = at::AutoDispatchBelowADInplaceOrView;

void check_all_like(const char* name, const std::vector<at::Tensor>& tensors,
                    const at::Tensor& like) {
  for (const at::Tensor& one : tensors) check_like(name, one, like);
}

}  // namespace

FakeBackend::WorkPtr FakeBackend::broadcast(Tensors& tensors,
                                            const c10d::BroadcastOptions& options) {
  begin_collective("broadcast");
  check_rank("broadcast", "root", options.rootRank);
  const std::int64_t bytes = bytes_of(tensors);
  return done({"broadcast", OpType::BROADCAST, bytes,
               model_.broadcast(bytes, static_cast<int>(options.rootRank))},
              {tensors});
}

FakeBackend::WorkPtr FakeBackend::allreduce(Tensors& tensors,
                                            const c10d::AllreduceOptions& /*options*/) {
  begin_collective("all_reduce");
  const std::int64_t bytes = bytes_of(tensors);
  return done({"all_reduce", OpType::ALLREDUCE, bytes, model_.all_reduce(bytes)}, {tensors});
}

FakeBackend::WorkPtr FakeBackend::allreduce_sparse(Tensors& tensors,
                                                   const c10d::AllreduceOptions& options) {
  return allreduce(tensors, options);
}

FakeBackend::WorkPtr FakeBackend::allreduce_coalesced(
    Tensors& tensors, const c10d::AllreduceCoalescedOptions& /*options*/) {
  begin_collective("all_reduce_coalesced");
  const std::int64_t bytes = bytes_of(tensors);
  return done(
      {"all_reduce_coalesced", OpType::ALLREDUCE_COALESCED, bytes, model_.all_reduce(bytes)},
      {tensors});
}

FakeBackend::WorkPtr FakeBackend::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  begin_collective("reduce");
  check_rank("reduce", "root", options.rootRank);
  const std::int64_t bytes = bytes_of(tensors);
  return done(
      {"reduce", OpType::REDUCE, bytes, model_.reduce(bytes, static_cast<int>(options.rootRank))},
      {tensors});
}

FakeBackend::WorkPtr FakeBackend::allgather(TensorLists& outputs, Tensors& inputs,
                                            const c10d::AllgatherOptions& /*options*/) {
  begin_collective("all_gather");
  check_count("all_gather", "inputs", inputs.size(), 1);
  check_count("all_gather", "lists of outputs", outputs.size(), 1);
  check_count("all_gather", "outputs", outputs[0].size(), getSize());
  check_all_like("all_gather", outputs[0], inputs[0]);
  const PastAutograd guard;
  for (const at::Tensor& output : outputs[0]) output.copy_(inputs[0]);
  const std::int64_t bytes = bytes_of(inputs);
  return done({"all_gather", OpType::ALLGATHER, bytes, model_.all_gather(bytes)}, outputs);
}

void FakeBackend::gather_into(const char* name, const at::Tensor& output,
                              const at::Tensor& input) const {
  check_times_size(name, output, input);
  TORCH_CHECK(output.is_contiguous(), name, ": the output (sizes ", output.sizes(), ", strides ",
              output.strides(), ") is not contiguous; expected one that is");
  const PastAutograd guard;
  const std::int64_t columns = input.numel();
  output.view({getSize(), columns}).copy_(input.reshape({1, columns}).expand({getSize(), columns}));
}

void FakeBackend::scatter_from(const char* name, const at::Tensor& output,
                               const at::Tensor& input) const {
  check_times_size(name, input, output);
  const PastAutograd guard;
  const at::Tensor own = input.reshape({getSize(), output.numel()}).select(0, getRank());
  output.copy_(own.view(output.sizes()));
}

FakeBackend::WorkPtr FakeBackend::DISTRUN_ALL_GATHER_SINGLE(
    at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& /*options*/) {
  constexpr const char* kName = "all_gather_into_tensor";
  begin_collective(kName);
  gather_into(kName, output, input);
  const std::int64_t bytes = bytes_of(input);
  return done({kName, OpType::_ALLGATHER_BASE, bytes, model_.all_gather(bytes)}, {{output}});
}

// LibTorch passes one list of outputs for each rank.
FakeBackend::WorkPtr FakeBackend::allgather_coalesced(TensorLists& outputs, Tensors& inputs,
                                                      const c10d::AllgatherOptions& /*options*/) {
  constexpr const char* kName = "all_gather_coalesced";
  begin_collective(kName);
  check_count(kName, "lists of outputs", outputs.size(), getSize());
  for (const Tensors& list : outputs) {
    check_count(kName, "outputs in a list", list.size(), static_cast<int>(inputs.size()));
    for (std::size_t i = 0; i < list.size(); ++i) check_like(kName, list[i], inputs[i]);
  }
  const PastAutograd guard;
  for (const Tensors& list : outputs) {
    for (std::size_t i = 0; i < list.size(); ++i) list[i].copy_(inputs[i]);
  }
  const std::int64_t bytes = bytes_of(inputs);
  return done({kName, OpType::ALLGATHER_COALESCED, bytes, model_.all_gather(bytes)}, outputs);
}

FakeBackend::WorkPtr FakeBackend::DISTRUN_ALL_GATHER_SINGLE_COALESCED(
    Tensors& outputs, Tensors& inputs, const c10d::AllgatherOptions& /*options*/) {
  constexpr const char* kName = "all_gather_into_tensor_coalesced";
  begin_collective(kName);
  check_count(kName, "outputs", outputs.size(), static_cast<int>(inputs.size()));
  for (std::size_t i = 0; i < outputs.size(); ++i) gather_into(kName, outputs[i], inputs[i]);
  const std::int64_t bytes = bytes_of(inputs);
  return done({kName, OpType::COALESCED, bytes, model_.all_gather(bytes)}, {outputs});
}

FakeBackend::WorkPtr FakeBackend::gather(TensorLists& outputs, Tensors& inputs,
                                         const c10d::GatherOptions& options) {
  begin_collective("gather");
  check_rank("gather", "root", options.rootRank);
  check_count("gather", "inputs", inputs.size(), 1);
  const bool is_root = getRank() == options.rootRank;
  check_count("gather", "lists of outputs", outputs.size(), is_root ? 1 : 0);
  if (is_root) {
    check_count("gather", "outputs", outputs[0].size(), getSize());
    check_all_like("gather", outputs[0], inputs[0]);
    const PastAutograd guard;
    for (const at::Tensor& output : outputs[0]) output.copy_(inputs[0]);
  }
  const std::int64_t bytes = bytes_of(inputs);
  return done(
      {"gather", OpType::GATHER, bytes, model_.gather(bytes, static_cast<int>(options.rootRank))},
      outputs);
}

#if DISTRUN_LIBTORCH_SINCE(2, 14)
FakeBackend::WorkPtr FakeBackend::gather_single(at::Tensor& output, at::Tensor& input,
                                                const c10d::GatherOptions& options) {
  TensorLists outputs;
  Tensors inputs = {input};
  if (getRank() == options.rootRank) {
    check_times_size("gather", output, input);
    outputs.push_back(rows_of(output, input, getSize()));
  }
  return gather(outputs, inputs, options);
}
#endif

FakeBackend::WorkPtr FakeBackend::scatter(Tensors& outputs, TensorLists& inputs,
                                          const c10d::ScatterOptions& options) {
  begin_collective("scatter");
  check_rank("scatter", "root", options.rootRank);
  check_count("scatter", "outputs", outputs.size(), 1);
  const bool is_root = getRank() == options.rootRank;
  check_count("scatter", "lists of inputs", inputs.size(), is_root ? 1 : 0);
  if (is_root) {
    check_count("scatter", "inputs", inputs[0].size(), getSize());
    check_all_like("scatter", inputs[0], outputs[0]);
    const PastAutograd guard;
    outputs[0].copy_(inputs[0][static_cast<std::size_t>(getRank())]);
  }
  const std::int64_t bytes = bytes_of(outputs);
  return done({"scatter", OpType::SCATTER, is_root ? bytes_of(inputs[0]) : bytes,
               model_.scatter(bytes, static_cast<int>(options.rootRank))},
              {outputs});
}

FakeBackend::WorkPtr FakeBackend::reduce_scatter(Tensors& outputs, TensorLists& inputs,
                                                 const c10d::ReduceScatterOptions& /*options*/) {
  begin_collective("reduce_scatter");
  check_count("reduce_scatter", "outputs", outputs.size(), 1);
  check_count("reduce_scatter", "lists of inputs", inputs.size(), 1);
  check_count("reduce_scatter", "inputs", inputs[0].size(), getSize());
  check_all_like("reduce_scatter", inputs[0], outputs[0]);
  const PastAutograd guard;
  outputs[0].copy_(inputs[0][static_cast<std::size_t>(getRank())]);
  return done({"reduce_scatter", OpType::REDUCE_SCATTER, bytes_of(inputs[0]),
               model_.reduce_scatter(bytes_of(outputs))},
              {outputs});
}

FakeBackend::WorkPtr FakeBackend::DISTRUN_REDUCE_SCATTER_SINGLE(
    at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& /*options*/) {
  constexpr const char* kName = "reduce_scatter_tensor";
  begin_collective(kName);
  scatter_from(kName, output, input);
  return done({kName, OpType::_REDUCE_SCATTER_BASE, bytes_of(input),
               model_.reduce_scatter(bytes_of(output))},
              {{output}});
}

FakeBackend::WorkPtr FakeBackend::DISTRUN_REDUCE_SCATTER_SINGLE_COALESCED(
    Tensors& outputs, Tensors& inputs, const c10d::ReduceScatterOptions& /*options*/) {
  constexpr const char* kName = "reduce_scatter_tensor_coalesced";
  begin_collective(kName);
  check_count(kName, "outputs", outputs.size(), static_cast<int>(inputs.size()));
  for (std::size_t i = 0; i < outputs.size(); ++i) scatter_from(kName, outputs[i], inputs[i]);
  return done(
      {kName, OpType::COALESCED, bytes_of(inputs), model_.reduce_scatter(bytes_of(outputs))},
      {outputs});
}

FakeBackend::WorkPtr FakeBackend::DISTRUN_ALL_TO_ALL_SINGLE(
    at::Tensor& output, at::Tensor& input, std::vector<std::int64_t>& output_sizes,
    std::vector<std::int64_t>& input_sizes, const c10d::AllToAllOptions& /*options*/) {
  begin_collective("all_to_all_single");
  check_dtype("all_to_all_single", output, input);
  check_splits("output", output, output_sizes);
  check_splits("input", input, input_sizes);
  const PastAutograd guard;
  const Tensors to = parts_of(output, output_sizes, getSize());
  const Tensors from = parts_of(input, input_sizes, getSize());
  for (std::size_t i = 0; i < to.size(); ++i) write_repeated(to[i], from[i]);
  const auto own = static_cast<std::size_t>(getRank());
  return done({"all_to_all_single",
               OpType::ALLTOALL_BASE,
               bytes_of(input),
               {.sent = bytes_of(input) - bytes_of(from[own]),
                .received = bytes_of(output) - bytes_of(to[own])}},
              {{output}});
}

FakeBackend::WorkPtr FakeBackend::alltoall(Tensors& outputs, Tensors& inputs,
                                           const c10d::AllToAllOptions& /*options*/) {
  begin_collective("all_to_all");
  check_count("all_to_all", "outputs", outputs.size(), getSize());
  check_count("all_to_all", "inputs", inputs.size(), getSize());
  for (const at::Tensor& one : outputs) check_dtype("all_to_all", one, inputs[0]);
  for (const at::Tensor& one : inputs) check_dtype("all_to_all", one, inputs[0]);
  const PastAutograd guard;
  for (std::size_t i = 0; i < outputs.size(); ++i) write_repeated(outputs[i], inputs[i]);
  const auto own = static_cast<std::size_t>(getRank());
  return done({"all_to_all",
               OpType::ALLTOALL,
               bytes_of(inputs),
               {.sent = bytes_of(inputs) - bytes_of(inputs[own]),
                .received = bytes_of(outputs) - bytes_of(outputs[own])}},
              {outputs});
}

}  // namespace distrun::internal
