#include "distrun/tensor_parallel.h"

#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <c10/util/Exception.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/nn/modules/container/any.h>

#include "distrun/collectives.h"
#include "parallel/tensor/layout_change.h"

namespace distrun {

using internal::apply_layout_op;
using internal::change_layout;
using internal::LayoutOp;
using internal::redistribute;
using internal::replicate_for_parts;
using internal::sum_to;

TensorParallelModule::TensorParallelModule(std::string name, DeviceMesh mesh,
                                           ParallelLayouts layouts)
    : torch::nn::Module(std::move(name)), mesh_(std::move(mesh)), layouts_(layouts) {
  TORCH_CHECK_VALUE(mesh_.ndim() == 1, this->name(), ": the mesh has ", mesh_.ndim(),
                    " dimensions; expected one, such as mesh[\"tp\"]");
}

at::Tensor TensorParallelModule::add_parameter(const std::string& name, const at::Tensor& whole,
                                               tensor::Placement placement) {
  if (!whole.defined()) return register_parameter(name, at::Tensor(), false);
  const at::NoGradGuard no_grad;
  const Group& group = mesh_.get_group();
  const at::Tensor all = whole.detach().clone(at::MemoryFormat::Contiguous);
  broadcast(all, GroupRank(0), {.group = group});
  at::Tensor part = all;
  if (const auto* shard = std::get_if<tensor::Shard>(&placement)) {
    TORCH_CHECK_VALUE(all.size(shard->dim) % mesh_.size() == 0, this->name(), ": ", name,
                      " has sizes ", all.sizes(), ", and dimension ", shard->dim,
                      " cannot be divided among ", mesh_.size(), " ranks");
    part = apply_layout_op(all, {LayoutOp::kSlice, shard->dim}, group).clone();
  }
  facts_[name] = {whole.sizes().vec(), placement};
  return register_parameter(name, part, whole.requires_grad());
}

std::vector<ParallelParameter> TensorParallelModule::parallel_parameters() const {
  std::vector<ParallelParameter> all;
  for (const auto& one : named_parameters(/*recurse=*/false)) {
    const Facts& facts = facts_.at(one.key());
    all.push_back({one.key(), one.value(), facts.sizes, facts.placement});
  }
  return all;
}

torch::OrderedDict<std::string, at::Tensor> TensorParallelModule::full_state_dict() const {
  torch::OrderedDict<std::string, at::Tensor> state;
  for (const ParallelParameter& one : parallel_parameters()) {
    const auto* shard = std::get_if<tensor::Shard>(&one.placement);
    std::vector<std::int64_t> expected = one.sizes;
    if (shard != nullptr) expected[static_cast<std::size_t>(shard->dim)] /= mesh_.size();
    TORCH_CHECK_VALUE(one.local.sizes() == at::IntArrayRef(expected), name(), ": ", one.name,
                      " has sizes ", one.local.sizes(), "; expected ", at::IntArrayRef(expected),
                      ": call unshard() of its FullyShardedDataParallel first");
    state.insert(one.name, shard == nullptr
                               ? one.local.detach().clone()
                               : apply_layout_op(one.local, {LayoutOp::kAllGather, shard->dim},
                                                 mesh_.get_group()));
  }
  return state;
}

bool TensorParallelModule::is_divided(const std::string& parameter) const {
  return std::holds_alternative<tensor::Shard>(facts_.at(parameter).placement);
}

namespace {

// Adds the layer to errors of the functions that change a layout.
template <class Act>
auto naming(const std::string& layer, const Act& act) {
  try {
    return act();
  } catch (c10::Error& error) {
    error.add_context(layer);
    throw;
  }
}

void check_inputs(const std::string& name, const at::Tensor& input, std::int64_t expected) {
  TORCH_CHECK_VALUE(input.dim() > 0 && input.size(-1) == expected, name, ": the input has sizes ",
                    input.sizes(), "; expected [.., ", expected, "]");
}

}  // namespace

ColwiseParallelImpl::ColwiseParallelImpl(const torch::nn::Linear& plain, const DeviceMesh& mesh,
                                         const ParallelLayouts& layouts)
    : TensorParallelModule("ColwiseParallel", mesh, layouts),
      weight(add_parameter("weight", plain->weight, tensor::Shard(0))),
      bias(add_parameter("bias", plain->bias, tensor::Shard(0))) {}

at::Tensor ColwiseParallelImpl::forward(const at::Tensor& input) {
  const Group& group = mesh().get_group();
  const at::Tensor whole =
      naming(name(), [&] { return replicate_for_parts(input, layouts().input_layouts, group); });
  check_inputs(name(), whole, weight.size(1));
  return naming(name(), [&] {
    return redistribute(at::linear(whole, weight, bias), tensor::Shard(-1),
                        layouts().output_layouts, group);
  });
}

RowwiseParallelImpl::RowwiseParallelImpl(const torch::nn::Linear& plain, const DeviceMesh& mesh,
                                         const ParallelLayouts& layouts)
    : TensorParallelModule("RowwiseParallel", mesh, layouts),
      weight(add_parameter("weight", plain->weight, tensor::Shard(1))),
      bias(add_parameter("bias", plain->bias, tensor::Replicate())) {}

at::Tensor RowwiseParallelImpl::forward(const at::Tensor& input) {
  const Group& group = mesh().get_group();
  const at::Tensor part = naming(name(), [&] {
    return redistribute(input, layouts().input_layouts, tensor::Shard(-1), group);
  });
  check_inputs(name(), part, weight.size(1));
  at::Tensor output = naming(
      name(), [&] { return sum_to(at::linear(part, weight), layouts().output_layouts, group); });
  if (!bias.defined()) return output;
  const auto* shard = std::get_if<tensor::Shard>(&layouts().output_layouts);
  if (shard == nullptr) return output + bias;
  // Each rank adds the bias to its part, so the gradient is a partial sum.  Along the last
  // dimension, a part of the output has a part of the bias.
  const bool is_last = shard->dim == -1 || shard->dim == output.dim() - 1;
  if (is_last) {
    return output + change_layout(bias, {LayoutOp::kSlice, 0}, {LayoutOp::kAllGather, 0}, group);
  }
  return output + change_layout(bias, {LayoutOp::kIdentity}, {LayoutOp::kAllReduce}, group);
}

namespace {

void check_embedding(const torch::nn::Embedding& plain, const std::string& name) {
  const auto& options = plain->options;
  TORCH_CHECK_VALUE(!options.max_norm() && !options.sparse() && !options.scale_grad_by_freq(), name,
                    ": options max_norm, sparse and scale_grad_by_freq are not supported");
}

}  // namespace

ColwiseEmbeddingImpl::ColwiseEmbeddingImpl(const torch::nn::Embedding& plain,
                                           const DeviceMesh& mesh, const ParallelLayouts& layouts)
    : TensorParallelModule("ColwiseEmbedding", mesh, layouts) {
  check_embedding(plain, name());
  weight = add_parameter("weight", plain->weight, tensor::Shard(1));
  padding_index_ = plain->options.padding_idx().value_or(-1);
}

at::Tensor ColwiseEmbeddingImpl::forward(const at::Tensor& indices) {
  const Group& group = mesh().get_group();
  at::Tensor all = indices;
  if (const auto* shard = std::get_if<tensor::Shard>(&layouts().input_layouts)) {
    all = apply_layout_op(indices, {LayoutOp::kAllGather, shard->dim}, group);
  }
  return naming(name(), [&] {
    return redistribute(at::embedding(weight, all, padding_index_), tensor::Shard(-1),
                        layouts().output_layouts, group);
  });
}

RowwiseEmbeddingImpl::RowwiseEmbeddingImpl(const torch::nn::Embedding& plain,
                                           const DeviceMesh& mesh, const ParallelLayouts& layouts)
    : TensorParallelModule("RowwiseEmbedding", mesh, layouts) {
  check_embedding(plain, name());
  TORCH_CHECK_VALUE(!plain->options.padding_idx(), name(),
                    ": the option padding_idx is not supported; use ColwiseEmbedding");
  weight = add_parameter("weight", plain->weight, tensor::Shard(0));
  rows_ = weight.size(0);
}

at::Tensor RowwiseEmbeddingImpl::forward(const at::Tensor& indices) {
  const Group& group = mesh().get_group();
  at::Tensor all = indices;
  if (const auto* shard = std::get_if<tensor::Shard>(&layouts().input_layouts)) {
    all = apply_layout_op(indices, {LayoutOp::kAllGather, shard->dim}, group);
  }
  const std::int64_t count = rows_ * group->getSize();
  // Other devices would have to wait for the answer.
  TORCH_CHECK_INDEX(
      !all.is_cpu() || all.numel() == 0 ||
          (all.min().item<std::int64_t>() >= 0 && all.max().item<std::int64_t>() < count),
      name(), ": an index is out of range; expected 0 to ", count - 1);
  const at::Tensor own = all - rows_ * group->getRank();
  const at::Tensor is_elsewhere = (own < 0).logical_or(own >= rows_);
  const at::Tensor vectors = at::embedding(weight, own.masked_fill(is_elsewhere, 0));
  return naming(name(), [&] {
    return sum_to(vectors.masked_fill(is_elsewhere.unsqueeze(-1), 0), layouts().output_layouts,
                  group);
  });
}

SequenceParallelImpl::SequenceParallelImpl(const torch::nn::LayerNorm& plain,
                                           const DeviceMesh& mesh, std::int64_t sequence_dim)
    : TensorParallelModule("SequenceParallel", mesh,
                           {tensor::Shard(sequence_dim), tensor::Shard(sequence_dim)}),
      weight(add_parameter("weight", plain->weight, tensor::Replicate())),
      bias(add_parameter("bias", plain->bias, tensor::Replicate())),
      options_(plain->options) {}

at::Tensor SequenceParallelImpl::forward(const at::Tensor& input) {
  const auto of_whole_sequence = [&](const at::Tensor& parameter) {
    if (!parameter.defined()) return parameter;
    return change_layout(parameter, {LayoutOp::kIdentity}, {LayoutOp::kAllReduce},
                         mesh().get_group());
  };
  return at::layer_norm(input, options_.normalized_shape(), of_whole_sequence(weight),
                        of_whole_sequence(bias), options_.eps());
}

namespace {

using Kind = ParallelStyle::Kind;

template <class Layer, class Plain>
std::shared_ptr<typename Layer::ContainedType> make(const Plain& plain, const DeviceMesh& mesh,
                                                    const ParallelStyle& style,
                                                    ParallelLayouts layouts) {
  layouts.input_layouts = style.input_layouts.value_or(layouts.input_layouts);
  layouts.output_layouts = style.output_layouts.value_or(layouts.output_layouts);
  return std::make_shared<typename Layer::ContainedType>(plain, mesh, layouts);
}

// Returns false if the element cannot be replaced in this style.
bool add_parallel(torch::nn::Sequential& to, const std::string& name,
                  const std::shared_ptr<torch::nn::Module>& element, const DeviceMesh& mesh,
                  const ParallelStyle& style) {
  const bool is_colwise = style.kind == Kind::kColwise, is_rowwise = style.kind == Kind::kRowwise;
  const auto as = [&]<class Holder>(const Holder* /*type*/) {
    return Holder(std::dynamic_pointer_cast<typename Holder::ContainedType>(element));
  };
  if (const auto linear = as(static_cast<torch::nn::Linear*>(nullptr)); !linear.is_empty()) {
    if (is_colwise) {
      to->push_back(name, make<ColwiseParallel>(linear, mesh, style,
                                                {tensor::Replicate(), tensor::Shard(-1)}));
    } else if (is_rowwise) {
      to->push_back(name, make<RowwiseParallel>(linear, mesh, style,
                                                {tensor::Shard(-1), tensor::Replicate()}));
    }
    return is_colwise || is_rowwise;
  }
  if (const auto table = as(static_cast<torch::nn::Embedding*>(nullptr)); !table.is_empty()) {
    if (is_colwise) {
      to->push_back(name, make<ColwiseEmbedding>(table, mesh, style,
                                                 {tensor::Replicate(), tensor::Shard(-1)}));
    } else if (is_rowwise) {
      to->push_back(name, make<RowwiseEmbedding>(table, mesh, style,
                                                 {tensor::Replicate(), tensor::Replicate()}));
    }
    return is_colwise || is_rowwise;
  }
  const auto norm = as(static_cast<torch::nn::LayerNorm*>(nullptr));
  if (norm.is_empty() || style.kind != Kind::kSequence) return false;
  const auto layout = style.input_layouts.value_or(tensor::Shard(1));
  const auto* const shard = std::get_if<tensor::Shard>(&layout);
  if (shard == nullptr || style.output_layouts.value_or(layout) != layout) return false;
  to->push_back(name, std::make_shared<SequenceParallelImpl>(norm, mesh, shard->dim));
  return true;
}

}  // namespace

torch::nn::Sequential parallelize_module(const torch::nn::Sequential& module,
                                         const DeviceMesh& mesh,
                                         const std::map<std::string, ParallelStyle>& plan) {
  const auto children = module->named_children();
  for (const auto& [name, style] : plan) {
    TORCH_CHECK_VALUE(children.contains(name), "parallelize_module: the module has no element '",
                      name, "'");
  }
  torch::nn::Sequential parallel;
  auto element = module->begin();
  for (const auto& child : children) {
    const auto found = plan.find(child.key());
    if (found == plan.end()) {
      parallel->push_back(child.key(), *element);
    } else {
      const bool has_style = naming("element '" + child.key() + "' of parallelize_module", [&] {
        return add_parallel(parallel, child.key(), child.value(), mesh, found->second);
      });
      TORCH_CHECK_VALUE(has_style, "parallelize_module: element '", child.key(), "' is a ",
                        child.value()->name(),
                        ", which has no such style, or not with these layouts");
    }
    ++element;
  }
  return parallel;
}

}  // namespace distrun
