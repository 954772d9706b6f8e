// The parameters of a unit: each rank keeps a shard of them, and gathers all for a computation.
//
//     ShardedParameters all(parameters, group, {});
//     all.start_unshard();             // An asynchronous all_gather.
//     all.finish_unshard();            // The parameters have their sizes and values.
//     …                                // Forward and backward fill their gradients.
//     auto gradients = all.take_gradients();
//     all.reshard();                   // The parameters are this rank's shards again.
//     all.start_reduce(std::move(gradients));  // An asynchronous reduce_scatter.
//     all.finish_reduce();             // The shards have their gradients.
//
// The tensors remain the same objects: only their data changes, so a module's members, the
// registered parameters and an optimizer's list stay valid. A parameter that is sharded is the part
// of it that lies in this rank's shard, with one dimension, often empty.
//
// Tensors that autograd saved in forward are views of the gathered storage. This storage is freed
// and allocated anew, but stays one object, so they are valid in backward.
//
// Blocks, throws: as the collectives. Thread safety: one thread at a time.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "distrun/fsdp_options.h"
#include "distrun/group.h"
#include "distrun/work.h"
#include "parallel/fsdp/flat_layout.h"

namespace distrun::internal {

struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};

class ShardedParameters {
 public:
  // Shards the parameters. They must be dense leaves of one dtype on one device, each of which
  // occurs once. If `options` says so, they first get the values of group rank 0.
  ShardedParameters(std::vector<NamedTensor> parameters, const FsdpOptions& options);

  bool empty() const { return parameters_.empty(); }
  const std::vector<NamedTensor>& parameters() const { return parameters_; }
  const FlatLayout& layout() const { return layout_; }
  int rank() const { return rank_; }
  // Requires that it is not empty.
  c10::Device device() const { return shard_.device(); }
  at::ScalarType dtype() const { return shard_.scalar_type(); }

  // Throw c10::Error if the data of a parameter were replaced.
  void start_unshard();
  void finish_unshard();
  // The parameters are shards again, but the gathered values stay until reshard(), for the next
  // finish_unshard().
  void hide();
  bool is_hidden() const { return state_ == State::kHidden; }
  // Frees the gathered values. Waits if they are being gathered.
  void reshard();
  // reshard() after an error, without another one.
  void release() noexcept;
  // Whether the tensor is a view of the gathered values.
  bool has_memory_of(const at::Tensor& tensor) const;

  // Before backward, while unsharded: puts the gradients of the shards aside.
  void begin_gradients();
  // After backward: takes the parameters' gradients, and puts those of the shards back.
  std::vector<at::Tensor> take_gradients();
  // Starts to sum the gradients, and those that were kept, over all ranks.
  void start_reduce(std::vector<at::Tensor> gradients);
  // Keeps the gradients for the next reduction.
  void keep(std::vector<at::Tensor> gradients);
  bool keeps_gradients() const { return unreduced_.defined(); }
  void forget_kept() { unreduced_ = at::Tensor(); }
  // If one of them requires a gradient.
  bool need_gradients() const;
  bool is_reducing() const { return reduction_.has_value(); }
  // Adds the mean of the reduced gradients to those of the shards.
  void finish_reduce();
  // After a backward that has thrown: forgets gradients that are not reduced yet, and release().
  void abandon() noexcept;

  // All values in the parameters' own dtype, flat as the layout says: a new tensor. A collective.
  at::Tensor gathered() const;
  // This rank's values. A change changes the parameters.
  const at::Tensor& shard() const { return shard_; }

 private:
  enum class State { kSharded, kGathering, kHidden, kUnsharded };
  struct Reduction {
    Work work;
    at::Tensor sent, received;
  };

  void check_data() const;
  void show_shards();
  at::Tensor flattened(std::vector<at::Tensor> gradients) const;

  std::vector<NamedTensor> parameters_;
  Group group_;
  int rank_, ranks_;
  at::ScalarType param_dtype_, reduce_dtype_;
  FlatLayout layout_;
  at::Tensor shard_;
  at::Tensor full_;  // Its storage is empty while sharded.
  at::Tensor sent_;  // The shard in param_dtype_, while it is sent.
  Work gathering_;
  State state_ = State::kSharded;
  bool has_begun_gradients_ = false;
  std::vector<at::Tensor> shard_gradients_;  // Put aside during backward.
  at::Tensor unreduced_;                     // Flat, of backwards that did not reduce.
  std::optional<Reduction> reduction_;
};

}  // namespace distrun::internal
