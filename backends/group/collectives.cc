#include "distrun/collectives.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "backends/group/below_autograd.h"
#include "backends/group/collective_checks.h"
#include "backends/group/contiguous.h"
#include "backends/group/group_state.h"
#include "backends/group/rows.h"
#include "backends/group/run_collective.h"
#include "backends/group/run_directly.h"

namespace distrun {

namespace {

using c10d::ProcessGroup;
using internal::BelowAutograd;
using internal::CallSite;
using internal::check_like;
using internal::check_list;
using internal::check_movable;
using internal::check_numel;
using internal::check_sizes;
using internal::check_tensor;
using internal::Contiguous;
using internal::DirectCalls;
using internal::DirectTensors;
using internal::group_rank_of;
using internal::is_for_this_rank;
using internal::Name;
using internal::ran_directly;
using internal::run_collective;
using internal::Sizes;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;

// Checks that the list has a tensor like `tensor` for each rank.
void check_list_like(const CallSite& site, const Name& name, const Tensors& tensors,
                     const Name& other_name, const at::Tensor& tensor) {
  check_list(site, name, tensors, site.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    check_like(site, name[i], tensors[i], other_name, tensor);
    check_sizes(site, name[i], tensors[i], other_name, tensor);
  }
}

// The root of gather and scatter gives a tensor for each rank, other ranks none.
void check_roots_list(const CallSite& site, const Name& name, const Tensors& tensors, int root,
                      const at::Tensor& tensor) {
  if (site.rank() == root) return check_list_like(site, name, tensors, "tensor", tensor);
  site.check(tensors.empty(), name, " has ", tensors.size(),
             " tensors; expected none: only group rank ", root, ", the root, passes tensors");
}

// Gloo requires that the first dimension of `large` is `ranks` times that of `small`, and the
// others equal. Otherwise sends tensors as one dimension.
Sizes sizes_for_rows(const at::Tensor& large, const at::Tensor& small, int ranks) {
  auto rows = small.sizes().vec();
  if (rows.empty() || large.is_complex() != small.is_complex()) return Sizes::kFlat;
  rows[0] *= ranks;
  return large.sizes() == at::IntArrayRef(rows) ? Sizes::kOwn : Sizes::kFlat;
}

// LibTorch 2.13 renames these in its groups, and 2.14 in its backends (libtorch_versions.h).
template <class Process>
WorkPtr gather_into(Process& group, at::Tensor& output, at::Tensor& input) {
  if constexpr (requires { group.all_gather_single(output, input); }) {
    return group.all_gather_single(output, input);
  } else {
    return group._allgather_base(output, input);
  }
}

template <class Process>
WorkPtr reduce_scatter_into(Process& group, at::Tensor& output, at::Tensor& input,
                            const c10d::ReduceScatterOptions& options) {
  if constexpr (requires { group.reduce_scatter_single(output, input, options); }) {
    return group.reduce_scatter_single(output, input, options);
  } else {
    return group._reduce_scatter_base(output, input, options);
  }
}

template <class Process>
WorkPtr all_to_all_in_one(Process& group, at::Tensor& output, at::Tensor& input,
                          std::vector<std::int64_t>& output_sizes,
                          std::vector<std::int64_t>& input_sizes) {
  if constexpr (requires { group.all_to_all_single(output, input, output_sizes, input_sizes); }) {
    return group.all_to_all_single(output, input, output_sizes, input_sizes);
  } else {
    return group.alltoall_base(output, input, output_sizes, input_sizes);
  }
}

bool is_nccl(const c10d::ProcessGroup& group) {
  return group.getBackendType() == c10d::ProcessGroup::BackendType::NCCL;
}

// For barriers, LibTorch's group uses NCCL if that is its default, else its CPU backend. Without
// both, call the backend directly.
template <class Act>
auto by_backend_of_barriers(c10d::ProcessGroup& group, const Act& act) {
  if (internal::has_cpu_backend(group) || is_nccl(group)) return act(group);
  return act(*group.getBackend(group.getDeviceTypes().at(0).type()));
}

bool are_of_one_size(const Tensors& tensors, const at::Tensor& like) {
  return std::all_of(tensors.begin(), tensors.end(),
                     [&](const at::Tensor& one) { return one.sizes() == like.sizes(); });
}

// Sends the tensors as parts of one tensor, because Gloo's alltoall() needs one size. A rank with
// only one size calls alltoall(), whose messages are the same.
Work all_to_all_in_parts(const CallSite& site, const Tensors& outputs, const Tensors& inputs,
                         bool async_op) {
  const at::NoGradGuard no_grad;  // The parts are temporary.
  Tensors parts;
  std::vector<std::int64_t> output_sizes, input_sizes;
  for (const at::Tensor& one : inputs) {
    parts.push_back(Contiguous::input(one, Sizes::kFlat));
    input_sizes.push_back(parts.back().numel());
  }
  for (const at::Tensor& one : outputs) output_sizes.push_back(internal::numel_sent(one));
  at::Tensor from = at::cat(parts);
  at::Tensor to = at::empty(
      {std::accumulate(output_sizes.begin(), output_sizes.end(), std::int64_t{0})}, from.options());
  Contiguous contiguous(site);
  const Tensors places = to.split_with_sizes(output_sizes);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    contiguous.output_in(places[i], Name("outputs")[i], outputs[i]);
  }
  return run_collective(site, async_op, contiguous, [&] {
    return all_to_all_in_one(*site.group.process_group(), to, from, output_sizes, input_sizes);
  });
}

}  // namespace

Work broadcast(const at::Tensor& tensor, AnyRank src, const CollectiveOptions& options) {
  const CallSite site{"broadcast", options.group};
  if (!is_for_this_rank(site.function, site.group)) return {};
  const int root = group_rank_of(site.function, site.group, src);
  const DirectTensors plain = {
      .output = &tensor, .input = &tensor, .writes_output = site.rank() != root, .root = root};
  if (ran_directly(site, options.async_op, plain, [&](DirectCalls& its, auto begin) {
        return its.broadcast_now(tensor, root, begin);
      })) {
    return {};
  }
  check_movable(site, "tensor", tensor);
  Contiguous contiguous(site);
  Tensors tensors = {site.rank() == root ? contiguous.unchanged_output("tensor", tensor)
                                         : contiguous.output("tensor", tensor)};
  return run_collective(site, options.async_op, contiguous, [&] {
    const BelowAutograd direct(tensors[0]);
    return site.group->broadcast(tensors, {.rootRank = root, .asyncOp = options.async_op});
  });
}

Work all_reduce(const at::Tensor& tensor, ReduceOp op, const CollectiveOptions& options) {
  const CallSite site{"all_reduce", options.group};
  if (ran_directly(site, options.async_op, {.output = &tensor}, [&](DirectCalls& its, auto begin) {
        return its.all_reduce_now(tensor, op, begin);
      })) {
    return {};
  }
  if (!is_for_this_rank(site.function, site.group)) return {};
  check_tensor(site, "tensor", tensor, internal::Layout::kDenseOrSparse);
  check_operation(site, tensor, op);
  Contiguous contiguous(site);
  Tensors tensors = {contiguous.output("tensor", tensor)};
  return run_collective(site, options.async_op, contiguous, [&] {
    const BelowAutograd direct(tensors[0]);
    return site.group->allreduce(tensors, {.reduceOp = std::move(op), .asyncOp = options.async_op});
  });
}

Work all_reduce_coalesced(const Tensors& tensors, ReduceOp op, const CollectiveOptions& options) {
  const CallSite site{"all_reduce_coalesced", options.group};
  if (!is_for_this_rank(site.function, site.group)) return {};
  site.check(!tensors.empty(), "tensors is empty; expected a tensor");
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Name one = Name("tensors")[i];
    check_tensor(site, one, tensors[i]);
    check_device(site, one, tensors[i]);
    check_like(site, one, tensors[i], "tensors[0]", tensors[0]);
  }
  check_operation(site, tensors[0], op);
  Contiguous contiguous(site);
  Tensors all = contiguous.outputs("tensors", tensors);
  c10d::AllreduceCoalescedOptions its;
  its.reduceOp = std::move(op);
  its.asyncOp = options.async_op;
  return run_collective(site, options.async_op, contiguous,
                        [&] { return site.group->allreduce_coalesced(all, its); });
}

Work reduce(const at::Tensor& tensor, AnyRank dst, ReduceOp op, const CollectiveOptions& options) {
  const CallSite site{"reduce", options.group};
  if (!is_for_this_rank(site.function, site.group)) return {};
  const int root = group_rank_of(site.function, site.group, dst);
  check_tensor(site, "tensor", tensor);
  check_operation(site, tensor, op);
  Contiguous contiguous(site);
  Tensors tensors = {contiguous.output("tensor", tensor)};
  return run_collective(site, options.async_op, contiguous, [&] {
    return site.group->reduce(
        tensors, {.reduceOp = std::move(op), .rootRank = root, .asyncOp = options.async_op});
  });
}

Work all_gather(const Tensors& tensors, const at::Tensor& tensor,
                const CollectiveOptions& options) {
  const CallSite site{"all_gather", options.group};
  if (!is_for_this_rank(site.function, site.group)) return {};
  check_movable(site, "tensor", tensor);
  check_list_like(site, "tensors", tensors, "tensor", tensor);
  Contiguous contiguous(site);
  std::vector<Tensors> outputs = {contiguous.outputs("tensors", tensors)};
  Tensors inputs = {contiguous.input(tensor)};
  return run_collective(site, options.async_op, contiguous, [&] {
    return site.group->allgather(outputs, inputs, {.asyncOp = options.async_op});
  });
}

Work all_gather_into_tensor(const at::Tensor& output, const at::Tensor& input,
                            const CollectiveOptions& options) {
  const CallSite site{"all_gather_into_tensor", options.group};
  const DirectTensors plain = {.output = &output, .input = &input};
  if (ran_directly(site, options.async_op, plain, [&](DirectCalls& its, auto begin) {
        return its.all_gather_now(output, input, begin);
      })) {
    return {};
  }
  if (!is_for_this_rank(site.function, site.group)) return {};
  check_movable(site, "output", output);
  check_movable(site, "input", input);
  check_like(site, "output", output, "input", input);
  check_numel(site, "output", output, "input", input, site.size());
  Contiguous contiguous(site);
  const Sizes sizes = sizes_for_rows(output, input, site.size());
  at::Tensor to = contiguous.output("output", output, sizes);
  at::Tensor from = contiguous.input(input, sizes);
  return run_collective(site, options.async_op, contiguous, [&] {
    const BelowAutograd direct(to, from);
    return gather_into(*site.group.process_group(), to, from);
  });
}

Work all_gather_single(const at::Tensor& output, const at::Tensor& input,
                       const CollectiveOptions& options) {
  return all_gather_into_tensor(output, input, options);
}

Work all_gather_coalesced(const std::vector<Tensors>& lists, const Tensors& inputs,
                          const CollectiveOptions& options) {
  const CallSite site{"all_gather_coalesced", options.group};
  if (!is_for_this_rank(site.function, site.group)) return {};
  site.check(!inputs.empty(), "inputs is empty; expected a tensor");
  site.check(lists.size() == inputs.size(), "there are ", lists.size(), " lists; expected ",
             inputs.size(), ", one for each of inputs");
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Name input = Name("inputs")[i];
    check_movable(site, input, inputs[i]);
    check_device(site, input, inputs[i]);
    check_list_like(site, Name("lists")[i], lists[i], input, inputs[i]);
  }
  // LibTorch takes one list per rank.
  Contiguous contiguous(site);
  std::vector<Tensors> outputs(static_cast<std::size_t>(site.size()));
  for (std::size_t i = 0; i < lists.size(); ++i) {
    const Tensors list = contiguous.outputs(Name("lists")[i], lists[i]);
    for (std::size_t rank = 0; rank < list.size(); ++rank) outputs[rank].push_back(list[rank]);
  }
  Tensors all = contiguous.inputs(inputs);
  return run_collective(site, options.async_op, contiguous, [&] {
    return site.group->allgather_coalesced(outputs, all, {.asyncOp = options.async_op});
  });
}

Work gather(const at::Tensor& tensor, const Tensors& tensors, AnyRank dst,
            const CollectiveOptions& options) {
  const CallSite site{"gather", options.group};
  if (!is_for_this_rank(site.function, site.group)) return {};
  const int root = group_rank_of(site.function, site.group, dst);
  check_movable(site, "tensor", tensor);
  check_roots_list(site, "tensors", tensors, root, tensor);
  Contiguous contiguous(site);
  std::vector<Tensors> outputs;
  if (site.rank() == root) outputs.push_back(contiguous.outputs("tensors", tensors));
  Tensors inputs = {contiguous.input(tensor)};
  return run_collective(site, options.async_op, contiguous, [&] {
    return site.group->gather(outputs, inputs, {.rootRank = root, .asyncOp = options.async_op});
  });
}

// Calls gather(), which every version and backend has.
Work gather_single(const at::Tensor& tensor, const at::Tensor& gather_tensor, AnyRank dst,
                   const CollectiveOptions& options) {
  const CallSite site{"gather_single", options.group};
  if (!is_for_this_rank(site.function, site.group)) return {};
  const int root = group_rank_of(site.function, site.group, dst);
  check_movable(site, "tensor", tensor);
  Contiguous contiguous(site);
  Tensors inputs = {contiguous.input(tensor, Sizes::kFlat)};
  std::vector<Tensors> outputs;
  if (site.rank() == root) {
    check_movable(site, "gather_tensor", gather_tensor);
    check_like(site, "gather_tensor", gather_tensor, "tensor", tensor);
    check_numel(site, "gather_tensor", gather_tensor, "tensor", tensor, site.size());
    const at::Tensor to = contiguous.output("gather_tensor", gather_tensor, Sizes::kFlat);
    outputs.push_back(internal::rows_of(to, inputs[0], site.size()));
  }
  return run_collective(site, options.async_op, contiguous, [&] {
    return site.group->gather(outputs, inputs, {.rootRank = root, .asyncOp = options.async_op});
  });
}

Work scatter(const at::Tensor& tensor, const Tensors& tensors, AnyRank src,
             const CollectiveOptions& options) {
  const CallSite site{"scatter", options.group};
  if (!is_for_this_rank(site.function, site.group)) return {};
  const int root = group_rank_of(site.function, site.group, src);
  check_movable(site, "tensor", tensor);
  check_roots_list(site, "tensors", tensors, root, tensor);
  Contiguous contiguous(site);
  std::vector<Tensors> inputs;
  if (site.rank() == root) inputs.push_back(contiguous.inputs(tensors));
  Tensors outputs = {contiguous.output("tensor", tensor)};
  return run_collective(site, options.async_op, contiguous, [&] {
    return site.group->scatter(outputs, inputs, {.rootRank = root, .asyncOp = options.async_op});
  });
}

Work reduce_scatter(const at::Tensor& output, const Tensors& inputs, ReduceOp op,
                    const CollectiveOptions& options) {
  const CallSite site{"reduce_scatter", options.group};
  if (!is_for_this_rank(site.function, site.group)) return {};
  check_tensor(site, "output", output);
  check_list_like(site, "inputs", inputs, "output", output);
  check_operation(site, output, op);
  Contiguous contiguous(site);
  Tensors outputs = {contiguous.output("output", output)};
  std::vector<Tensors> all = {contiguous.inputs(inputs)};
  return run_collective(site, options.async_op, contiguous, [&] {
    return site.group->reduce_scatter(outputs, all,
                                      {.reduceOp = std::move(op), .asyncOp = options.async_op});
  });
}

Work reduce_scatter_tensor(const at::Tensor& output, const at::Tensor& input, ReduceOp op,
                           const CollectiveOptions& options) {
  const CallSite site{"reduce_scatter_tensor", options.group};
  const DirectTensors plain = {.output = &output, .input = &input};
  if (ran_directly(site, options.async_op, plain, [&](DirectCalls& its, auto begin) {
        return its.reduce_scatter_now(output, input, op, begin);
      })) {
    return {};
  }
  if (!is_for_this_rank(site.function, site.group)) return {};
  check_tensor(site, "output", output);
  check_tensor(site, "input", input);
  check_like(site, "output", output, "input", input);
  check_numel(site, "input", input, "output", output, site.size());
  check_operation(site, output, op);
  Contiguous contiguous(site);
  const Sizes sizes = sizes_for_rows(input, output, site.size());
  at::Tensor to = contiguous.output("output", output, sizes);
  at::Tensor from = contiguous.input(input, sizes);
  const c10d::ReduceScatterOptions its{.reduceOp = std::move(op), .asyncOp = options.async_op};
  return run_collective(site, options.async_op, contiguous, [&] {
    const BelowAutograd direct(to, from);
    return reduce_scatter_into(*site.group.process_group(), to, from, its);
  });
}

Work reduce_scatter_single(const at::Tensor& output, const at::Tensor& input, ReduceOp op,
                           const CollectiveOptions& options) {
  return reduce_scatter_tensor(output, input, std::move(op), options);
}

Work all_to_all(const Tensors& outputs, const Tensors& inputs, const CollectiveOptions& options) {
  const CallSite site{"all_to_all", options.group};
  if (!is_for_this_rank(site.function, site.group)) return {};
  check_list(site, "outputs", outputs, site.size());
  check_list(site, "inputs", inputs, site.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    check_like(site, Name("outputs")[i], outputs[i], "inputs[0]", inputs[0]);
    check_like(site, Name("inputs")[i], inputs[i], "inputs[0]", inputs[0]);
  }
  const auto own = static_cast<std::size_t>(site.rank());
  check_numel(site, Name("outputs")[own], outputs[own], Name("inputs")[own], inputs[own]);
  const bool one_size = are_of_one_size(inputs, inputs[0]) && are_of_one_size(outputs, inputs[0]);
  if (!one_size && !internal::traits_for(site, inputs[0]).has_uneven_all_to_all()) {
    return all_to_all_in_parts(site, outputs, inputs, options.async_op);
  }
  Contiguous contiguous(site);
  Tensors to = contiguous.outputs("outputs", outputs), from = contiguous.inputs(inputs);
  return run_collective(site, options.async_op, contiguous, [&] {
    return site.group->alltoall(to, from, {.asyncOp = options.async_op});
  });
}

Work all_to_all_single(const at::Tensor& output, const at::Tensor& input,
                       std::vector<std::int64_t> output_split_sizes,
                       std::vector<std::int64_t> input_split_sizes,
                       const CollectiveOptions& options) {
  const CallSite site{"all_to_all_single", options.group};
  const DirectTensors plain = {.output = &output, .input = &input};
  if (output_split_sizes.empty() && input_split_sizes.empty() &&
      ran_directly(site, options.async_op, plain, [&](DirectCalls& its, auto begin) {
        return its.all_to_all_now(output, input, begin);
      })) {
    return {};
  }
  if (!is_for_this_rank(site.function, site.group)) return {};
  check_movable(site, "output", output);
  check_movable(site, "input", input);
  check_like(site, "output", output, "input", input);
  check_splits(site, "output", output, output_split_sizes);
  check_splits(site, "input", input, input_split_sizes);
  check_own_part(site, output, output_split_sizes, input, input_split_sizes);
  Contiguous contiguous(site);
  at::Tensor to = contiguous.output("output", output), from = contiguous.input(input);
  return run_collective(site, options.async_op, contiguous, [&] {
    return all_to_all_in_one(*site.group.process_group(), to, from, output_split_sizes,
                             input_split_sizes);
  });
}

Work barrier(const CollectiveOptions& options) {
  const CallSite site{"barrier", options.group};
  if (!is_for_this_rank(site.function, site.group)) return {};
  const bool is_of_gpus = is_nccl(*site.group.process_group());
  if (!is_of_gpus && ran_directly(site, options.async_op, {}, [](DirectCalls& its, auto begin) {
        return its.barrier_now(begin);
      })) {
    return {};
  }
  c10d::BarrierOptions its{.asyncOp = options.async_op};
  if (is_of_gpus) {
    // Else LibTorch guesses the GPU from the rank, which is wrong if ranks see one GPU each.
    const auto* gpus = c10::impl::getDeviceGuardImpl(c10::DeviceType::CUDA);
    its.device_ids = {gpus->getDevice().index()};
  }
  return run_collective(site, options.async_op, [&] {
    return by_backend_of_barriers(*site.group.process_group(),
                                  [&](auto& backend) { return backend.barrier(its); });
  });
}

void monitored_barrier(const MonitoredBarrierOptions& options) {
  const CallSite site{"monitored_barrier", options.group};
  if (!is_for_this_rank(site.function, site.group)) return;
  c10d::BarrierOptions its;
  if (options.timeout) {
    its.timeout = *options.timeout;
    site.check(its.timeout.count() > 0, "the timeout is ", its.timeout.count(),
               " ms; expected a positive one, or none for the group's");
  }
  run_collective(site, /*async_op=*/false, [&]() -> WorkPtr {
    by_backend_of_barriers(*site.group.process_group(), [&](auto& backend) {
      backend.monitoredBarrier(its, options.wait_all_ranks);
    });
    return nullptr;
  });
}

// LibTorch's group queries only backends whose names it knows.
std::uint64_t get_sequence_number(const Group& group) {
  return group->getDefaultBackend()->getSequenceNumberForGroup();
}

}  // namespace distrun
