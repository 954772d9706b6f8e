// Tensor parallelism: each rank keeps and computes a part of a layer.
//
//     const DeviceMesh mesh = init_device_mesh(at::kCPU, {2, 4}, {"dp", "tp"});
//     struct MlpImpl : torch::nn::Module {
//       ColwiseParallel up{nullptr};
//       RowwiseParallel down{nullptr};
//       explicit MlpImpl(const DeviceMesh& tp) {
//         up = register_module("up", ColwiseParallel(torch::nn::Linear(64, 256), tp));
//         down = register_module("down", RowwiseParallel(torch::nn::Linear(256, 64), tp));
//       }
//       at::Tensor forward(const at::Tensor& x) { return down(at::relu(up(x))); }
//     };
//     const auto mlp = std::make_shared<MlpImpl>(mesh["tp"]);
//     FullyShardedDataParallel fsdp(mlp, {.process_group = mesh["dp"].get_group()});
//
// Python replaces the layers of a model (parallelize_module).  In C++, the members of a module have
// a type, so each layer that works in parallel is made from the layer that it replaces.  For
// torch::nn::Sequential, parallelize_module() replaces elements, as in Python.
//
// A layer is made from the plain layer's values on group rank 0 of the mesh.  The mesh must have
// one dimension.  Every rank of the mesh must call the constructor, forward() and backward() in the
// same order.
//
// Layouts (placement.h) say what a rank has of an input or output: Replicate() if each rank has all
// of it, Shard(d) if each rank has an equal part along dimension d.  A negative dimension counts
// from the end.  All ranks must compute the same loss from replicated outputs.  The gradients are
// then those of the plain layer; otherwise, they are wrong.
//
//     layer              keeps                          default input -> output
//     ColwiseParallel    rows of the weight             Replicate()   -> Shard(-1)
//     RowwiseParallel    columns of the weight          Shard(-1)     -> Replicate()
//     ColwiseEmbedding   columns of the weight          Replicate()   -> Shard(-1)
//     RowwiseEmbedding   rows of the weight             Replicate()   -> Replicate()
//     SequenceParallel   everything (a LayerNorm)       Shard(1)      -> Shard(1)
//
// Blocks: constructors, forward() and backward() block until the collectives have ended.
// Throws: the constructors throw c10::ValueError if the mesh has several dimensions, or if the
// number of ranks does not divide the size of the weight.  forward() throws c10::ValueError if the
// number of ranks does not divide the size of an input or output that it shards.  All also throw
// the exceptions of collectives.h.
// Thread safety: one thread at a time for each mesh.
// PyTorch source: torch/distributed/tensor/parallel/style.py.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/pimpl.h>

#include "distrun/detail/divided_module.h"
#include "distrun/device_mesh.h"
#include "distrun/placement.h"

namespace distrun {

// The layouts of a layer.
struct ParallelLayouts {
  tensor::Placement input_layouts;   // Of the input.
  tensor::Placement output_layouts;  // Of the output.
};

// A parameter: each rank has a part of it, or all of it.
struct ParallelParameter {
  std::string name;                 // In its module.
  at::Tensor local;                 // This rank's part.
  std::vector<std::int64_t> sizes;  // Of the whole parameter.
  tensor::Placement placement;      // Of the parameter.
};

// The base of the layers below.
class TensorParallelModule : public torch::nn::Module, public internal::DividedModule {
 public:
  // Returns the mesh.
  const DeviceMesh& mesh() const { return mesh_; }
  // Returns what this rank has of each parameter.  Within a FullyShardedDataParallel, the sizes of
  // `local` are those of the shard.
  std::vector<ParallelParameter> parallel_parameters() const;
  // Gathers the whole parameters, and returns them by name, as the plain layer has them.  Every
  // rank of the mesh must call it.  Within a FullyShardedDataParallel, call its unshard() before.
  //
  // Throws: c10::ValueError if a parameter is a shard of a FullyShardedDataParallel.
  torch::OrderedDict<std::string, at::Tensor> full_state_dict() const;

  // For FullyShardedDataParallel.
  const Group& group_of_parts() const override { return mesh_.get_group(); }
  // Returns whether each rank has only a part of a parameter.
  bool is_divided(const std::string& parameter) const override;

 protected:
  // A layer with this name, without parameters.
  TensorParallelModule(std::string name, DeviceMesh mesh, ParallelLayouts layouts);
  // Registers this rank's part of a parameter of the plain layer; undefined if `whole` is
  // undefined.
  at::Tensor add_parameter(const std::string& name, const at::Tensor& whole,
                           tensor::Placement placement);
  // Returns the layouts.
  const ParallelLayouts& layouts() const { return layouts_; }

 private:
  struct Facts {
    std::vector<std::int64_t> sizes;
    tensor::Placement placement;
  };
  DeviceMesh mesh_;
  ParallelLayouts layouts_;
  std::map<std::string, Facts> facts_;
};

// A Linear whose outputs are divided among the ranks.
class ColwiseParallelImpl : public TensorParallelModule {
 public:
  // Divides the parameters of `plain` among the ranks of `mesh`.
  ColwiseParallelImpl(const torch::nn::Linear& plain, const DeviceMesh& mesh,
                      const ParallelLayouts& layouts = {tensor::Replicate(), tensor::Shard(-1)});
  // Computes this rank's part of the output, or all of it, as the layouts say.
  at::Tensor forward(const at::Tensor& input);

  at::Tensor weight;  // [out_features / ranks, in_features]
  at::Tensor bias;    // [out_features / ranks], or undefined
};
// The module holder of ColwiseParallelImpl.
TORCH_MODULE(ColwiseParallel);

// A Linear whose inputs are divided among the ranks.
class RowwiseParallelImpl : public TensorParallelModule {
 public:
  // Divides the parameters of `plain` among the ranks of `mesh`.
  RowwiseParallelImpl(const torch::nn::Linear& plain, const DeviceMesh& mesh,
                      const ParallelLayouts& layouts = {tensor::Shard(-1), tensor::Replicate()});
  // Computes this rank's part of the output, or all of it, as the layouts say.
  at::Tensor forward(const at::Tensor& input);

  at::Tensor weight;  // [out_features, in_features / ranks]
  at::Tensor bias;    // [out_features], or undefined
};
// The module holder of RowwiseParallelImpl.
TORCH_MODULE(RowwiseParallel);

// An Embedding with a part of each vector on each rank.
class ColwiseEmbeddingImpl : public TensorParallelModule {
 public:
  // Divides the parameters of `plain` among the ranks of `mesh`.
  ColwiseEmbeddingImpl(const torch::nn::Embedding& plain, const DeviceMesh& mesh,
                       const ParallelLayouts& layouts = {tensor::Replicate(), tensor::Shard(-1)});
  // Computes this rank's part of the output, or all of it, as the layouts say.
  at::Tensor forward(const at::Tensor& indices);

  at::Tensor weight;  // [num_embeddings, embedding_dim / ranks]

 private:
  std::int64_t padding_index_ = -1;
};
// The module holder of ColwiseEmbeddingImpl.
TORCH_MODULE(ColwiseEmbedding);

// An Embedding with a part of the vectors on each rank.
class RowwiseEmbeddingImpl : public TensorParallelModule {
 public:
  // Divides the parameters of `plain` among the ranks of `mesh`.
  RowwiseEmbeddingImpl(const torch::nn::Embedding& plain, const DeviceMesh& mesh,
                       const ParallelLayouts& layouts = {tensor::Replicate(), tensor::Replicate()});
  // Computes this rank's part of the output, or all of it, as the layouts say.
  at::Tensor forward(const at::Tensor& indices);

  at::Tensor weight;  // [num_embeddings / ranks, embedding_dim]

 private:
  std::int64_t rows_ = 0;  // Of this rank's part.
};
// The module holder of RowwiseEmbeddingImpl.
TORCH_MODULE(RowwiseEmbedding);

// A LayerNorm of a part of the sequence on each rank.  Its parameters have the gradients of the
// whole sequence.
class SequenceParallelImpl : public TensorParallelModule {
 public:
  // `sequence_dim` is the dimension along which ranks have parts.
  SequenceParallelImpl(const torch::nn::LayerNorm& plain, const DeviceMesh& mesh,
                       std::int64_t sequence_dim = 1);
  // Computes this rank's part of the output, or all of it, as the layouts say.
  at::Tensor forward(const at::Tensor& input);

  at::Tensor weight;  // Undefined without elementwise_affine.
  at::Tensor bias;    // Undefined without elementwise_affine.

 private:
  torch::nn::LayerNormOptions options_;
};
// The module holder of SequenceParallelImpl.
TORCH_MODULE(SequenceParallel);

// How parallelize_module() replaces a layer.
struct ParallelStyle {
  // Colwise…, Rowwise… or SequenceParallel.
  enum class Kind { kColwise, kRowwise, kSequence };
  Kind kind = Kind::kColwise;  // The class of the new layer.
  // The defaults of the layer if they are not set.
  std::optional<tensor::Placement> input_layouts = std::nullopt;
  std::optional<tensor::Placement> output_layouts = std::nullopt;
};

// Returns a Sequential in which the elements that `plan` names are replaced.  A name is that of
// named_children(), such as "0".  Linear and Embedding can be colwise or rowwise, and LayerNorm
// can be sequence parallel.  Other elements are shared with `module`.
//
//     parallelize_module(net, mesh["tp"], {{"0", {ParallelStyle::Kind::kColwise}},
//                                          {"2", {ParallelStyle::Kind::kRowwise}}});
//
// Throws: c10::ValueError if `module` has no element of a name, or if the element cannot be
// replaced in this style.
torch::nn::Sequential parallelize_module(const torch::nn::Sequential& module,
                                         const DeviceMesh& mesh,
                                         const std::map<std::string, ParallelStyle>& plan);

}  // namespace distrun
