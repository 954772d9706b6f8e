#include "backends/shm/shm_backend.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "backends/group/rows.h"
#include "backends/shm/ended_tensors.h"
#include "backends/shm/host/host_collectives.h"
#include "backends/shm/host/shared_blocks.h"
#include "backends/shm/shm_errors.h"
#include "backends/shm/sparse_sum.h"

namespace distrun::shm {

using c10d::OpType;

namespace {

using Tensors = ShmBackend::Tensors;
using TensorLists = ShmBackend::TensorLists;
using ConstPart = Collectives::ConstPart;
using Part = Collectives::Part;

std::vector<DenseTensor> dense(const Tensors& tensors) {
  return std::vector<DenseTensor>(tensors.begin(), tensors.end());
}

void write_back(const std::vector<DenseTensor>& tensors) {
  for (const DenseTensor& one : tensors) one.write_back();
}

std::vector<std::byte*> data_of(const std::vector<DenseTensor>& tensors) {
  std::vector<std::byte*> all;
  all.reserve(tensors.size());
  for (const DenseTensor& one : tensors) all.push_back(one.data());
  return all;
}

std::vector<const std::byte*> const_data_of(const std::vector<DenseTensor>& tensors) {
  const std::vector<std::byte*> all = data_of(tensors);
  return {all.begin(), all.end()};
}

std::vector<std::byte*> parts_of(const DenseTensor& tensor, int count) {
  std::vector<std::byte*> all;
  all.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) all.push_back(tensor.part(i, count));
  return all;
}

// The bytes of each rank's part of the first dimension.
std::vector<std::size_t> split_bytes(const at::Tensor& tensor,
                                     const std::vector<std::int64_t>& sizes, int ranks) {
  std::vector<std::size_t> bytes(static_cast<std::size_t>(ranks),
                                 tensor.nbytes() / static_cast<std::size_t>(ranks));
  if (sizes.empty()) return bytes;
  const std::int64_t rows = tensor.size(0);
  const std::size_t row = rows == 0 ? 0 : tensor.nbytes() / static_cast<std::size_t>(rows);
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::size_t>(sizes[i]) * row;
  return bytes;
}

}  // namespace

ShmBackend::ShmBackend(int rank, int size, c10::intrusive_ptr<Options> options,
                       std::shared_ptr<RankGroup> group)
    : Backend(rank, size),
      options_(std::move(options)),
      group_(std::move(group)),
      timeout_(options_->timeout) {}

ShmBackend::~ShmBackend() {
  queue_->close();
  EndedTensors::release();
}

ShmBackend::WorkPtr ShmBackend::begin(const Call& call, TensorLists outputs,
                                      std::function<void(Collectives&, Watch&)> act) {
  EndedTensors::release();
  for (const Tensors& list : outputs) {
    for (const at::Tensor& each : list) check_writable(call.name, each);
  }
  const auto timeout = call.timeout > std::chrono::milliseconds(0) ? call.timeout : timeout_.load();
  auto run = [group = group_, act = std::move(act), timeout] {
    with_backend_errors([&] { group->run(timeout, act); });
  };
  auto work = c10::make_intrusive<QueuedWork>(
      ShmWork::Facts{.rank = getRank(), .type = call.type, .title = call.title, .number = ++calls_},
      std::move(outputs), queue_, std::move(run));
  queue_->add(work);
  if (call.is_async) {
    queue_->run_soon();
  } else {
    queue_->run_until(*work);
  }
  return work;
}

c10::intrusive_ptr<c10d::Backend> ShmBackend::split(const c10::intrusive_ptr<c10d::Store>& store,
                                                    const std::vector<int>& ranks,
                                                    const c10::intrusive_ptr<Options>& options) {
  const auto mine = std::find(ranks.begin(), ranks.end(), getRank());
  if (mine == ranks.end()) return nullptr;
  // Backends of other devices use the same store.
  BackendRequest request{.store = c10::make_intrusive<c10d::PrefixStore>("shm/", store),
                         .rank = static_cast<int>(mine - ranks.begin()),
                         .size = static_cast<int>(ranks.size()),
                         .timeout = options->timeout,
                         .group_name = options->group_name};
  for (const int rank : ranks) {
    request.ranks.push_back(
        static_cast<int>(options_->global_ranks_in_group.at(static_cast<std::size_t>(rank))));
  }
  return make(request);
}

Result<void> ShmBackend::share(const at::Tensor& tensor) {
  SharedBlocks& blocks = group_->blocks();
  if (tensor.nbytes() < kInPlaceBytes) return {};
  const auto* before = static_cast<const std::byte*>(tensor.const_data_ptr());
  if (blocks.place_of(before, tensor.nbytes())) return {};
  auto block = blocks.allocate(tensor.nbytes());
  if (!block) return block.error();
  std::byte* const data = (*block)->data();
  std::memcpy(data, before, tensor.nbytes());
  tensor.storage().unsafeGetStorageImpl()->set_data_ptr_noswap(c10::DataPtr(
      data, block->release(), [](void* its) { delete static_cast<SharedBlock*>(its); },
      tensor.device()));
  return {};
}

void ShmBackend::check_root(const Call& call, std::int64_t root) const {
  TORCH_CHECK_VALUE(0 <= root && root < getSize(), call.name, ": the root is ", root,
                    "; expected 0 to ", getSize() - 1);
}

void ShmBackend::check_count(const Call& call, const char* what, std::size_t count,
                             int expected) const {
  TORCH_CHECK_VALUE(count == static_cast<std::size_t>(expected), call.name, ": there are ", count,
                    " ", what, "; expected ", expected);
}

void ShmBackend::check_all_like(const Call& call, const Tensors& tensors,
                                const at::Tensor& like) const {
  check_dense(call.name, like);
  for (const at::Tensor& one : tensors) {
    check_dense(call.name, one);
    TORCH_CHECK_VALUE(one.nbytes() == like.nbytes(), call.name, ": a tensor has ", one.nbytes(),
                      " bytes, and another has ", like.nbytes(), "; expected the same");
  }
}

void ShmBackend::check_times_size(const Call& call, const at::Tensor& large,
                                  const at::Tensor& small) const {
  check_dense(call.name, large);
  check_dense(call.name, small);
  const auto ranks = static_cast<std::size_t>(getSize());
  TORCH_CHECK_VALUE(large.nbytes() == small.nbytes() * ranks, call.name, ": the larger tensor has ",
                    large.nbytes(), " bytes; expected ", small.nbytes() * ranks, ", which is ",
                    getSize(), " times the smaller one");
}

ShmBackend::WorkPtr ShmBackend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  const Call its = call("broadcast", OpType::BROADCAST, "shm:broadcast", options);
  check_root(its, options.rootRank);
  check_count(its, "tensors", tensors.size(), 1);
  check_dense(its.name, tensors[0]);
  return begin(
      its, {tensors},
      [all = tensors, root = static_cast<int>(options.rootRank)](auto& group, auto& watch) {
        const DenseTensor tensor(all[0]);
        group.broadcast(tensor.data(), tensor.bytes(), root, watch);
        tensor.write_back();
      });
}

ShmBackend::WorkPtr ShmBackend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  const Call its = call("all_reduce", OpType::ALLREDUCE, "shm:all_reduce", options);
  check_count(its, "tensors", tensors.size(), 1);
  if (tensors[0].is_sparse()) return begin_sparse_all_reduce(its, tensors[0], options.reduceOp);
  check_dense(its.name, tensors[0]);
  const Reducing how = reducing(its.name, tensors[0], options.reduceOp);
  return begin(its, {tensors}, [all = tensors, how](auto& group, auto& watch) {
    const DenseTensor tensor(all[0]);
    group.all_reduce(tensor.data(), tensor.numel(), how, watch);
    tensor.write_back();
  });
}

ShmBackend::WorkPtr ShmBackend::begin_sparse_all_reduce(const Call& call, const at::Tensor& tensor,
                                                        const c10d::ReduceOp& op) {
  TORCH_CHECK_VALUE(op == c10d::ReduceOp::SUM, call.name,
                    ": shm has no such reduction of sparse tensors; expected SUM");
  check_cpu(call.name, tensor);
  return begin(call, {{tensor}},
               [tensor](auto& group, auto& watch) { sum_sparse(tensor, group, watch); });
}

ShmBackend::WorkPtr ShmBackend::allreduce_coalesced(
    Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) {
  const Call its =
      call("all_reduce_coalesced", OpType::ALLREDUCE_COALESCED, "shm:all_reduce", options);
  std::vector<Reducing> how;
  for (const at::Tensor& one : tensors) {
    check_dense(its.name, one);
    how.push_back(reducing(its.name, one, options.reduceOp));
  }
  return begin(its, {tensors}, [all = tensors, how = std::move(how)](auto& group, auto& watch) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      const DenseTensor tensor(all[i]);
      group.all_reduce(tensor.data(), tensor.numel(), how[i], watch);
      tensor.write_back();
    }
  });
}

ShmBackend::WorkPtr ShmBackend::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  const Call its = call("reduce", OpType::REDUCE, "shm:reduce", options);
  check_root(its, options.rootRank);
  check_count(its, "tensors", tensors.size(), 1);
  check_dense(its.name, tensors[0]);
  const Reducing how = reducing(its.name, tensors[0], options.reduceOp);
  const int root = static_cast<int>(options.rootRank);
  return begin(its, {tensors}, [all = tensors, how, root](auto& group, auto& watch) {
    const DenseTensor tensor(all[0]);
    group.reduce(tensor.data(), tensor.numel(), how, root, watch);
    if (group.rank() == root) tensor.write_back();
  });
}

ShmBackend::WorkPtr ShmBackend::allgather(TensorLists& outputs, Tensors& inputs,
                                          const c10d::AllgatherOptions& options) {
  const Call its = call("all_gather", OpType::ALLGATHER, "shm:all_gather", options);
  check_count(its, "inputs", inputs.size(), 1);
  check_count(its, "lists of outputs", outputs.size(), 1);
  check_count(its, "outputs", outputs[0].size(), getSize());
  check_all_like(its, outputs[0], inputs[0]);
  return begin(its, outputs, [to = outputs[0], from = inputs[0]](auto& group, auto& watch) {
    const DenseTensor input(from);
    const auto all = dense(to);
    group.all_gather(input.data(), data_of(all), input.bytes(), watch);
    write_back(all);
  });
}

ShmBackend::WorkPtr ShmBackend::DISTRUN_ALL_GATHER_SINGLE(at::Tensor& output, at::Tensor& input,
                                                          const c10d::AllgatherOptions& options) {
  const Call its = call("all_gather_into_tensor", OpType::_ALLGATHER_BASE,
                        "shm:all_gather_into_tensor", options);
  check_times_size(its, output, input);
  return begin(its, {{output}}, [to = output, from = input](auto& group, auto& watch) {
    const DenseTensor in(from), out(to);
    group.all_gather(in.data(), parts_of(out, group.ranks()), in.bytes(), watch);
    out.write_back();
  });
}

// LibTorch passes one list of outputs for each rank.
ShmBackend::WorkPtr ShmBackend::allgather_coalesced(TensorLists& outputs, Tensors& inputs,
                                                    const c10d::AllgatherOptions& options) {
  const Call its = call("all_gather_coalesced", OpType::ALLGATHER_COALESCED,
                        "shm:all_gather_coalesced", options);
  check_count(its, "lists of outputs", outputs.size(), getSize());
  for (const Tensors& list : outputs) {
    check_count(its, "outputs in a list", list.size(), static_cast<int>(inputs.size()));
    for (std::size_t i = 0; i < list.size(); ++i) check_all_like(its, {list[i]}, inputs[i]);
  }
  return begin(its, outputs, [to = outputs, from = inputs](auto& group, auto& watch) {
    for (std::size_t i = 0; i < from.size(); ++i) {
      Tensors tensors;
      for (const Tensors& list : to) tensors.push_back(list[i]);
      const DenseTensor input(from[i]);
      const auto all = dense(tensors);
      group.all_gather(input.data(), data_of(all), input.bytes(), watch);
      write_back(all);
    }
  });
}

ShmBackend::WorkPtr ShmBackend::DISTRUN_ALL_GATHER_SINGLE_COALESCED(
    Tensors& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) {
  const Call its = call("all_gather_into_tensor_coalesced", OpType::ALLGATHER_COALESCED,
                        "shm:all_gather_into_tensor_coalesced", options);
  check_count(its, "outputs", outputs.size(), static_cast<int>(inputs.size()));
  for (std::size_t i = 0; i < inputs.size(); ++i) check_times_size(its, outputs[i], inputs[i]);
  return begin(its, {outputs}, [to = outputs, from = inputs](auto& group, auto& watch) {
    for (std::size_t i = 0; i < from.size(); ++i) {
      const DenseTensor in(from[i]), out(to[i]);
      group.all_gather(in.data(), parts_of(out, group.ranks()), in.bytes(), watch);
      out.write_back();
    }
  });
}

ShmBackend::WorkPtr ShmBackend::gather(TensorLists& outputs, Tensors& inputs,
                                       const c10d::GatherOptions& options) {
  const Call its = call("gather", OpType::GATHER, "shm:gather", options);
  check_root(its, options.rootRank);
  check_count(its, "inputs", inputs.size(), 1);
  check_dense(its.name, inputs[0]);
  const bool is_root = options.rootRank == getRank();
  check_count(its, "lists of outputs", outputs.size(), is_root ? 1 : 0);
  if (is_root) {
    check_count(its, "outputs", outputs[0].size(), getSize());
    check_all_like(its, outputs[0], inputs[0]);
  }
  return begin(its, outputs,
               [to = is_root ? outputs[0] : Tensors(), from = inputs[0],
                root = static_cast<int>(options.rootRank)](auto& group, auto& watch) {
                 const DenseTensor input(from);
                 const auto all = dense(to);
                 group.gather(input.data(), data_of(all), input.bytes(), root, watch);
                 write_back(all);
               });
}

#if DISTRUN_LIBTORCH_SINCE(2, 14)
ShmBackend::WorkPtr ShmBackend::gather_single(at::Tensor& output, at::Tensor& input,
                                              const c10d::GatherOptions& options) {
  TensorLists outputs;
  Tensors inputs = {input};
  if (getRank() == options.rootRank) outputs.push_back(internal::rows_of(output, input, getSize()));
  return gather(outputs, inputs, options);
}
#endif

ShmBackend::WorkPtr ShmBackend::scatter(Tensors& outputs, TensorLists& inputs,
                                        const c10d::ScatterOptions& options) {
  const Call its = call("scatter", OpType::SCATTER, "shm:scatter", options);
  check_root(its, options.rootRank);
  check_count(its, "outputs", outputs.size(), 1);
  check_dense(its.name, outputs[0]);
  const bool is_root = options.rootRank == getRank();
  check_count(its, "lists of inputs", inputs.size(), is_root ? 1 : 0);
  if (is_root) {
    check_count(its, "inputs", inputs[0].size(), getSize());
    check_all_like(its, inputs[0], outputs[0]);
  }
  return begin(its, {outputs},
               [to = outputs[0], from = is_root ? inputs[0] : Tensors(),
                root = static_cast<int>(options.rootRank)](auto& group, auto& watch) {
                 const DenseTensor output(to);
                 const auto all = dense(from);
                 group.scatter(const_data_of(all), output.data(), output.bytes(), root, watch);
                 output.write_back();
               });
}

ShmBackend::WorkPtr ShmBackend::reduce_scatter(Tensors& outputs, TensorLists& inputs,
                                               const c10d::ReduceScatterOptions& options) {
  const Call its = call("reduce_scatter", OpType::REDUCE_SCATTER, "shm:reduce_scatter", options);
  check_count(its, "outputs", outputs.size(), 1);
  check_count(its, "lists of inputs", inputs.size(), 1);
  check_count(its, "inputs", inputs[0].size(), getSize());
  check_all_like(its, inputs[0], outputs[0]);
  const Reducing how = reducing(its.name, outputs[0], options.reduceOp);
  return begin(its, {outputs}, [to = outputs[0], from = inputs[0], how](auto& group, auto& watch) {
    const DenseTensor output(to);
    const auto all = dense(from);
    group.reduce_scatter(const_data_of(all), output.data(), output.numel(), how, watch);
    output.write_back();
  });
}

ShmBackend::WorkPtr ShmBackend::DISTRUN_REDUCE_SCATTER_SINGLE(
    at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& options) {
  Tensors outputs = {output}, inputs = {input};
  return DISTRUN_REDUCE_SCATTER_SINGLE_COALESCED(outputs, inputs, options);
}

ShmBackend::WorkPtr ShmBackend::DISTRUN_REDUCE_SCATTER_SINGLE_COALESCED(
    Tensors& outputs, Tensors& inputs, const c10d::ReduceScatterOptions& options) {
  const Call its = call("reduce_scatter_tensor", OpType::_REDUCE_SCATTER_BASE,
                        "shm:reduce_scatter_tensor", options);
  check_count(its, "outputs", outputs.size(), static_cast<int>(inputs.size()));
  std::vector<Reducing> how;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    check_times_size(its, inputs[i], outputs[i]);
    how.push_back(reducing(its.name, outputs[i], options.reduceOp));
  }
  return begin(its, {outputs},
               [to = outputs, from = inputs, how = std::move(how)](auto& group, auto& watch) {
                 for (std::size_t i = 0; i < to.size(); ++i) {
                   const DenseTensor in(from[i]), out(to[i]);
                   const auto parts = parts_of(in, group.ranks());
                   group.reduce_scatter({parts.begin(), parts.end()}, out.data(), out.numel(),
                                        how[i], watch);
                   out.write_back();
                 }
               });
}

ShmBackend::WorkPtr ShmBackend::DISTRUN_ALL_TO_ALL_SINGLE(at::Tensor& output, at::Tensor& input,
                                                          std::vector<std::int64_t>& output_sizes,
                                                          std::vector<std::int64_t>& input_sizes,
                                                          const c10d::AllToAllOptions& options) {
  const Call its =
      call("all_to_all_single", OpType::ALLTOALL_BASE, "shm:all_to_all_single", options);
  check_dense(its.name, output);
  check_dense(its.name, input);
  for (const auto* sizes : {&input_sizes, &output_sizes}) {
    const bool is_possible =
        std::all_of(sizes->begin(), sizes->end(), [](std::int64_t size) { return size >= 0; });
    TORCH_CHECK_VALUE(is_possible, its.name, ": the split sizes are ", *sizes,
                      "; expected at least 0");
  }
  c10d::checkSplitSizes(input_sizes, input, getSize());
  c10d::checkSplitSizes(output_sizes, output, getSize());
  return begin(its, {{output}},
               [to = output, from = input, sizes_out = split_bytes(output, output_sizes, getSize()),
                sizes_in = split_bytes(input, input_sizes, getSize())](auto& group, auto& watch) {
                 const DenseTensor in(from), out(to);
                 std::vector<ConstPart> sent;
                 std::vector<Part> received;
                 std::size_t sent_bytes = 0, received_bytes = 0;
                 for (std::size_t i = 0; i < sizes_in.size(); ++i) {
                   sent.push_back({in.data() + sent_bytes, sizes_in[i]});
                   received.push_back({out.data() + received_bytes, sizes_out[i]});
                   sent_bytes += sizes_in[i];
                   received_bytes += sizes_out[i];
                 }
                 group.all_to_all(sent, received, watch);
                 out.write_back();
               });
}

ShmBackend::WorkPtr ShmBackend::alltoall(Tensors& outputs, Tensors& inputs,
                                         const c10d::AllToAllOptions& options) {
  const Call its = call("all_to_all", OpType::ALLTOALL, "shm:all_to_all", options);
  check_count(its, "outputs", outputs.size(), getSize());
  check_count(its, "inputs", inputs.size(), getSize());
  for (const at::Tensor& one : outputs) check_dense(its.name, one);
  for (const at::Tensor& one : inputs) check_dense(its.name, one);
  return begin(its, {outputs}, [to = outputs, from = inputs](auto& group, auto& watch) {
    const auto in = dense(from), out = dense(to);
    std::vector<ConstPart> sent;
    std::vector<Part> received;
    sent.reserve(in.size());
    received.reserve(out.size());
    for (const DenseTensor& one : in) sent.push_back({one.data(), one.bytes()});
    for (const DenseTensor& one : out) received.push_back({one.data(), one.bytes()});
    group.all_to_all(sent, received, watch);
    write_back(out);
  });
}

ShmBackend::WorkPtr ShmBackend::barrier(const c10d::BarrierOptions& options) {
  const Call its = call("barrier", OpType::BARRIER, "shm:barrier", options);
  return begin(its, {}, [](auto& group, auto& watch) { group.barrier(watch); });
}

// Rank 0's error names the ranks that did not come, in the words of ProcessGroupGloo.
ShmBackend::WorkPtr ShmBackend::begin_monitored_barrier(std::chrono::milliseconds timeout) {
  const Call its = {"monitored_barrier", OpType::BARRIER, "shm:monitored_barrier", timeout, false};
  return begin(its, {}, [timeout](auto& group, auto& watch) {
    try {
      group.barrier(watch);
    } catch (const HostError& error) {
      if (error.kind() != HostError::Kind::kTimedOut || group.rank() != 0) throw;
      throw HostError(error.missing(),
                      c10::str("Ranks ", c10::Join(", ", error.missing()),
                               " failed to pass monitoredBarrier in ", timeout.count(), " ms"));
    }
  });
}

// All ranks learn which did not come, also without `wait_all_ranks`. Ranks other than 0 wait with
// the group's timeout, as in Python.
void ShmBackend::monitoredBarrier(const c10d::BarrierOptions& options, bool /*wait_all_ranks*/) {
  const bool is_timed = getRank() == 0 && options.timeout > std::chrono::milliseconds(0);
  begin_monitored_barrier(is_timed ? options.timeout : timeout_.load())->wait();
}

}  // namespace distrun::shm
