#include "distrun/functional.h"

#include <string>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/core/ivalue.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "backends/group/collective_checks.h"
#include "backends/group/run_collective.h"

namespace distrun::functional {

namespace {

using internal::CallSite;
using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;
using Lengths = std::vector<std::int64_t>;

// Arguments of a forward pass for its backward pass.
struct Call {
  Group group;
  GroupRank root = GroupRank(0);
  ReduceOp op = ReduceOp::SUM;
  std::vector<Lengths> sizes = {};                // For all_to_all*: sizes of the outputs.
  Lengths output_splits = {}, input_splits = {};  // For all_to_all_single.

  CollectiveOptions options() const { return {.group = group}; }
  bool is_root() const { return get_rank(group) == root.value(); }
  int ranks() const { return get_world_size(group); }
};

struct KeptCall : torch::CustomClassHolder {
  explicit KeptCall(Call its) : call(std::move(its)) {}
  const Call call;
};

void keep(AutogradContext* ctx, const Call& call) {
  ctx->saved_data["call"] = c10::IValue::make_capsule(c10::make_intrusive<KeptCall>(call));
}

const Call& kept(const AutogradContext* ctx) {
  const auto capsule = ctx->saved_data.at("call").toCapsule();
  return static_cast<const KeptCall&>(*capsule).call;  // `ctx` keeps it alive.
}

template <class Make>
Tensors for_ranks(const Call& call, const Make& make) {
  Tensors all;
  for (int rank = 0; rank < call.ranks(); ++rank) all.push_back(make());
  return all;
}

at::Tensor room_for(const at::Tensor& like) {
  return at::empty_like(like, like.options(), at::MemoryFormat::Contiguous);
}

at::Tensor zeros_for(const at::Tensor& like) {
  return at::zeros_like(like, like.options(), at::MemoryFormat::Contiguous);
}

std::string backend_for(const at::Tensor& tensor, const Call& call) {
  return call.group->getBackend(tensor.device().type())->getBackendName();
}

// The gradient of a mean is the sum's, divided by the number of ranks.
at::Tensor divided(const at::Tensor& gradient, const Call& call) {
  return call.op == ReduceOp::AVG ? gradient / call.ranks() : gradient;
}

// The last argument, the call, has no gradient.
variable_list and_none(variable_list gradients) {
  gradients.emplace_back();
  return gradients;
}

// Runs the collective on a copy of the tensor, and returns the copy.
template <class Collective>
at::Tensor on_copy(AutogradContext* ctx, const at::Tensor& tensor, const Call& call,
                   const Collective& collective) {
  keep(ctx, call);
  at::Tensor result = tensor.clone();
  collective(result);
  return result;
}

struct AllReduce : Function<AllReduce> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& tensor, const Call& call) {
    return on_copy(ctx, tensor, call, [&](const at::Tensor& own) {
      distrun::all_reduce(own, call.op, call.options());
    });
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    return and_none({apply(gradients[0], kept(ctx))});
  }
};

struct Reduce : Function<Reduce> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& tensor, const Call& call) {
    return on_copy(ctx, tensor, call, [&](const at::Tensor& own) {
      distrun::reduce(own, call.root, call.op, call.options());
    });
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& gradients);
};

struct Broadcast : Function<Broadcast> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& tensor, const Call& call) {
    return on_copy(ctx, tensor, call, [&](const at::Tensor& own) {
      distrun::broadcast(own, call.root, call.options());
    });
  }
  // Zeroes in place on other ranks, so that a double backward still runs the collective.
  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const Call& call = kept(ctx);
    at::Tensor sum = Reduce::apply(gradients[0], call);
    if (!call.is_root()) sum.zero_();
    return and_none({sum});
  }
};

variable_list Reduce::backward(AutogradContext* ctx, const variable_list& gradients) {
  const Call& call = kept(ctx);
  Call back = call;
  back.op = ReduceOp::SUM;
  return and_none({divided(Broadcast::apply(gradients[0], back), call)});
}

struct AllToAll : Function<AllToAll> {
  static variable_list forward(AutogradContext* ctx, at::TensorList inputs, const Call& call) {
    Call back = call;
    back.sizes.clear();
    for (const at::Tensor& one : inputs) back.sizes.push_back(one.sizes().vec());
    keep(ctx, back);
    Tensors outputs;
    for (const Lengths& one : call.sizes) outputs.push_back(at::empty(one, inputs[0].options()));
    distrun::all_to_all(outputs, inputs.vec(), call.options());
    return outputs;
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    return and_none(apply(at::TensorList(gradients), kept(ctx)));
  }
};

struct ReduceScatter : Function<ReduceScatter> {
  static at::Tensor forward(AutogradContext* ctx, at::TensorList inputs, const Call& call) {
    keep(ctx, call);
    at::Tensor output = room_for(inputs[0]);
    distrun::reduce_scatter(output, inputs.vec(), call.op, call.options());
    return output;
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& gradients);
};

struct AllGather : Function<AllGather> {
  static variable_list forward(AutogradContext* ctx, const at::Tensor& tensor, const Call& call) {
    keep(ctx, call);
    Tensors all = for_ranks(call, [&] { return room_for(tensor); });
    distrun::all_gather(all, tensor, call.options());
    return all;
  }
  // As in Python, only "nccl" uses reduce_scatter: "gloo" would send more than necessary.
  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const Call& call = kept(ctx);
    if (backend_for(gradients[0], call) == "nccl") {
      return and_none({ReduceScatter::apply(at::TensorList(gradients), call)});
    }
    Call back = call;
    for (const at::Tensor& one : gradients) back.sizes.push_back(one.sizes().vec());
    return and_none({at::stack(AllToAll::apply(at::TensorList(gradients), back)).sum(0)});
  }
};

variable_list ReduceScatter::backward(AutogradContext* ctx, const variable_list& gradients) {
  const Call& call = kept(ctx);
  Call back = call;
  back.op = ReduceOp::SUM;
  return and_none(AllGather::apply(divided(gradients[0], call), back));
}

struct Gather : Function<Gather> {
  static variable_list forward(AutogradContext* ctx, const at::Tensor& tensor, const Call& call) {
    keep(ctx, call);
    Tensors all = for_ranks(call, [&] { return at::zeros_like(tensor); });
    distrun::gather(tensor, call.is_root() ? all : Tensors(), call.root, call.options());
    return all;
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& gradients);
};

struct Scatter : Function<Scatter> {
  static at::Tensor forward(AutogradContext* ctx, at::TensorList tensors, const Call& call) {
    keep(ctx, call);
    // "fake" receives nothing from another root, so the part must start as zeros.
    at::Tensor part = call.is_root() ? room_for(tensors[0]) : zeros_for(tensors[0]);
    distrun::scatter(part, call.is_root() ? tensors.vec() : Tensors(), call.root, call.options());
    return part;
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    return and_none(Gather::apply(gradients[0], kept(ctx)));
  }
};

variable_list Gather::backward(AutogradContext* ctx, const variable_list& gradients) {
  return and_none({Scatter::apply(at::TensorList(gradients), kept(ctx))});
}

struct AllToAllSingle : Function<AllToAllSingle> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& input, const Call& call) {
    Call back = call;
    back.sizes = {input.sizes().vec()};
    std::swap(back.output_splits, back.input_splits);
    keep(ctx, back);
    at::Tensor output = at::empty(call.sizes.at(0), input.options());
    distrun::all_to_all_single(output, input, call.output_splits, call.input_splits,
                               call.options());
    return output;
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    return and_none({apply(gradients[0], kept(ctx))});
  }
};

// Also rejects calls that collectives accept but that have no gradient.
Call checked_call(const char* function, const Group& group, const Tensors& tensors,
                  ReduceOp op = ReduceOp::SUM) {
  const CallSite site{function, group};
  site.check(group.is_member(), "it is not in ", internal::Described{group});
  bool wants_gradient = false;
  for (const at::Tensor& one : tensors) {
    site.check(one.defined(), "a tensor is not defined");
    wants_gradient = wants_gradient || (at::GradMode::is_enabled() && one.requires_grad());
  }
  site.check(!wants_gradient || op == ReduceOp::SUM || op == ReduceOp::AVG, internal::name_of(op),
             " has no gradient; expected SUM or AVG, or tensors that require "
             "none");
  return {.group = internal::pinned(group), .op = std::move(op)};
}

Call with_root(const char* function, Call call, AnyRank root) {
  call.root = GroupRank(internal::group_rank_of(function, call.group, root));
  return call;
}

// Requires one dtype: collectives also accept a complex tensor with a real one.
void check_dtype(const CallSite& site, const internal::Name& name, const at::Tensor& tensor,
                 const internal::Name& other_name, const at::Tensor& other) {
  check_like(site, name, tensor, other_name, other);
  site.check(tensor.scalar_type() == other.scalar_type(), name, " has dtype ", tensor.scalar_type(),
             "; expected ", other.scalar_type(), ", the dtype of ", other_name);
}

void check_for_ranks(const char* function, const Group& group, const char* name,
                     const Tensors& tensors) {
  const CallSite site{function, group};
  internal::check_list(site, name, tensors, site.size());
  for (std::size_t i = 1; i < tensors.size(); ++i) {
    check_dtype(site, internal::Name(name)[i], tensors[i], internal::Name(name)[0], tensors[0]);
  }
}

void check_of_one_size(const char* function, const Group& group, const char* name,
                       const Tensors& tensors) {
  check_for_ranks(function, group, name, tensors);
  const CallSite site{function, group};
  for (std::size_t i = 1; i < tensors.size(); ++i) {
    check_sizes(site, internal::Name(name)[i], tensors[i], internal::Name(name)[0], tensors[0]);
  }
}

}  // namespace

at::Tensor broadcast(const at::Tensor& tensor, AnyRank src, const Group& group) {
  return Broadcast::apply(tensor,
                          with_root("broadcast", checked_call("broadcast", group, {tensor}), src));
}

at::Tensor all_reduce(const at::Tensor& tensor, ReduceOp op, const Group& group) {
  return AllReduce::apply(tensor, checked_call("all_reduce", group, {tensor}, std::move(op)));
}

at::Tensor reduce(const at::Tensor& tensor, AnyRank dst, ReduceOp op, const Group& group) {
  return Reduce::apply(
      tensor, with_root("reduce", checked_call("reduce", group, {tensor}, std::move(op)), dst));
}

Tensors all_gather(const at::Tensor& tensor, const Group& group) {
  return AllGather::apply(tensor, checked_call("all_gather", group, {tensor}));
}

Tensors gather(const at::Tensor& tensor, AnyRank dst, const Group& group) {
  return Gather::apply(tensor, with_root("gather", checked_call("gather", group, {tensor}), dst));
}

at::Tensor scatter(const Tensors& tensors, AnyRank src, const Group& group) {
  const Call call = with_root("scatter", checked_call("scatter", group, tensors), src);
  check_of_one_size("scatter", group, "tensors", tensors);
  return Scatter::apply(at::TensorList(tensors), call);
}

at::Tensor reduce_scatter(const Tensors& inputs, ReduceOp op, const Group& group) {
  const Call call = checked_call("reduce_scatter", group, inputs, std::move(op));
  check_of_one_size("reduce_scatter", group, "inputs", inputs);
  return ReduceScatter::apply(at::TensorList(inputs), call);
}

Tensors all_to_all(const Tensors& outputs, const Tensors& inputs, const Group& group) {
  Call call = checked_call("all_to_all", group, inputs);
  check_for_ranks("all_to_all", group, "inputs", inputs);
  check_for_ranks("all_to_all", group, "outputs", outputs);
  check_dtype({"all_to_all", group}, "outputs", outputs[0], "inputs", inputs[0]);
  for (const at::Tensor& one : outputs) call.sizes.push_back(one.sizes().vec());
  return AllToAll::apply(at::TensorList(inputs), call);
}

at::Tensor all_to_all_single(const at::Tensor& output, const at::Tensor& input,
                             std::vector<std::int64_t> output_split_sizes,
                             std::vector<std::int64_t> input_split_sizes, const Group& group) {
  Call call = checked_call("all_to_all_single", group, {output, input});
  check_dtype({"all_to_all_single", group}, "output", output, "input", input);
  call.sizes = {output.sizes().vec()};
  call.output_splits = std::move(output_split_sizes);
  call.input_splits = std::move(input_split_sizes);
  return AllToAllSingle::apply(input, call);
}

}  // namespace distrun::functional
