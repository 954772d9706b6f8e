// SyncBatchNorm is a batch normalization over the batches of all ranks.  A plain BatchNorm uses the
// statistics of one rank's batch, which are inaccurate if this batch is small.
//
//     struct NetImpl : torch::nn::Module {
//       torch::nn::Conv2d conv{nullptr};
//       SyncBatchNorm norm{nullptr};
//       NetImpl() {
//         conv = register_module("conv", torch::nn::Conv2d(3, 64, 3));
//         norm = register_module("norm", SyncBatchNorm(64));
//       }
//       at::Tensor forward(const at::Tensor& x) { return at::relu(norm(conv(x))); }
//     };
//     init_process_group("gloo");
//     DistributedDataParallel ddp(std::make_shared<NetImpl>());
//
// The layer takes the place of BatchNorm1d, BatchNorm2d and BatchNorm3d.  It has their options,
// parameters and buffers under the same names, so torch::save() and torch::load() exchange models
// with either kind of layer.  convert_sync_batchnorm() replaces the layers of a model.
//
// In training, outputs, gradients of the input and running statistics are those that a plain
// BatchNorm computes from the batches of all ranks together.  The batches may have different sizes,
// and a batch may be empty.  The gradients of weight and bias are those of this rank's batch, as of
// every layer: DistributedDataParallel and FullyShardedDataParallel reduce them.
//
// Each rank rounds the mean of its batch to float (for inputs of double, to double) before the
// ranks exchange it.  With float, the relative error of the variance is at most 1e-7 * |mean| / sd
// for a channel with a standard deviation sd: 1e-3 if the mean is 10,000 standard deviations.
//
// In evaluation (eval()), without a process group, and in a group with one rank, the layer is a
// plain BatchNorm and runs no collective.
//
// All ranks of the group must call forward() and backward() of their layers in the same order, as
// often as each other, and in the same mode (train() or eval()).  If you replace a layer, replace
// it on all ranks.  In a Join (join.h), use `throw_on_early_termination`, because a rank that has
// joined does not call forward().
//
// Thread safety: one thread at a time for each group.
// PyTorch source: torch/nn/modules/batchnorm.py, torch/nn/modules/_functions.py.
#pragma once

#include <concepts>
#include <cstddef>
#include <memory>
#include <optional>
#include <ostream>
#include <utility>

#include <ATen/core/Tensor.h>
#include <torch/nn/cloneable.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/options/batchnorm.h>
#include <torch/nn/pimpl.h>

#include "distrun/group.h"

namespace distrun {

// The class behind SyncBatchNorm.
class SyncBatchNormImpl : public torch::nn::Cloneable<SyncBatchNormImpl> {
 public:
  // Creates a layer with new parameters.  Instead of options, you can pass the number of channels.
  //
  //     SyncBatchNorm norm(torch::nn::BatchNormOptions(64).momentum(0.05), group);
  explicit SyncBatchNormImpl(const torch::nn::BatchNormOptions& options, Group process_group = {});
  // Creates a layer with the options of a BatchNorm1d, BatchNorm2d or BatchNorm3d, which shares the
  // parameters and buffers of this layer.
  template <std::size_t D, class Plain>
  explicit SyncBatchNormImpl(const torch::nn::BatchNormImplBase<D, Plain>& plain, Group group = {})
      : options(plain.options),
        weight(plain.weight),
        bias(plain.bias),
        running_mean(plain.running_mean),
        running_var(plain.running_var),
        num_batches_tracked(plain.num_batches_tracked),
        process_group(std::move(group)) {
    register_tensors();
    Module::train(plain.is_training());
  }

  // Normalizes each channel of the input.
  //
  // Shapes: the input has the sizes [N, C, ...], where C is the number of channels, and N may be
  // zero.  Its dtype is double if the parameters are double; otherwise it is float, half or
  // bfloat16.  Statistics of half and bfloat16 are computed in float.  The result has the sizes and
  // the dtype of the input.
  // Blocks: in training, until every rank of the group has called forward().  The backward() of the
  // result blocks until every rank has called it, if an input requires a gradient.
  // Throws: in training, c10::ValueError on every rank of the group, with the same text, if the
  // input of any rank has wrong sizes, a wrong dtype or a wrong device, if the numbers of channels
  // of the layers differ, if the ranks together have only one value per channel, or if the input of
  // one rank requires a gradient and another rank computes none.  Without synchronization, throws
  // c10::ValueError for wrong inputs of this rank.
  // Also throws c10::ValueError if this rank is not in the group.
  // Also throws the exceptions of collectives.h.
  // backward() throws c10::Error with create_graph.
  // Cost: in training, an all_gather() of 2 · C + 3 doubles.  If an input requires a gradient,
  // backward() runs an all_reduce() of 2 · C doubles.  The first forward() also runs an
  // all_gather() of 8 bytes, to compare the numbers of channels.
  at::Tensor forward(const at::Tensor& input);

  // Creates new parameters and buffers.
  void reset() override;
  // Sets running_mean and num_batches_tracked to 0, and running_var to 1.
  void reset_running_stats();
  // Does the same, and sets weight to 1 and bias to 0.
  void reset_parameters();
  // Prints the class and its options.
  void pretty_print(std::ostream& stream) const override;

  // The options.  Later changes of `eps` and `momentum` have an effect.
  torch::nn::BatchNormOptions options;
  // [num_features]; undefined without the option `affine`.
  at::Tensor weight;
  // [num_features]; undefined without the option `affine`.
  at::Tensor bias;
  // [num_features]; undefined without the option `track_running_stats`.
  at::Tensor running_mean;
  // [num_features]; undefined without the option `track_running_stats`.
  at::Tensor running_var;
  // The number of calls of forward() in training; undefined without `track_running_stats`.
  at::Tensor num_batches_tracked;
  // The ranks whose batches are normalized together.  The default is all ranks.
  Group process_group;

 private:
  void register_tensors();
  at::Tensor plain_forward(const at::Tensor& input);
  at::Tensor synchronized_forward(const at::Tensor& input);
  void compare_channels();
  double count_batch();

  // The group whose ranks have the same number of channels.
  std::shared_ptr<void> compared_in_;
};
// The module holder of SyncBatchNormImpl.
TORCH_MODULE(SyncBatchNorm);

namespace internal {

// Replaces layers within a module.
void convert_batch_norms(const std::shared_ptr<torch::nn::Module>& module,
                         const Group& process_group);

}  // namespace internal

// Returns a SyncBatchNorm with the options of `layer`, which shares its parameters and buffers.
SyncBatchNorm convert_sync_batchnorm(const torch::nn::BatchNorm1d& layer,
                                     const Group& process_group = {});
// Does the same for a BatchNorm2d.
SyncBatchNorm convert_sync_batchnorm(const torch::nn::BatchNorm2d& layer,
                                     const Group& process_group = {});
// Does the same for a BatchNorm3d.
SyncBatchNorm convert_sync_batchnorm(const torch::nn::BatchNorm3d& layer,
                                     const Group& process_group = {});

// Replaces each BatchNorm1d, BatchNorm2d and BatchNorm3d within `module` by a SyncBatchNorm that
// shares its parameters and buffers, and sets the group of each SyncBatchNorm within `module`.
// Returns `module`.  Call it before you construct a DistributedDataParallel, a
// FullyShardedDataParallel or an optimizer.
//
//     torch::nn::Sequential net(torch::nn::Conv2d(3, 64, 3), torch::nn::BatchNorm2d(64));
//     DistributedDataParallel ddp(convert_sync_batchnorm(net));
//
// It replaces elements of torch::nn::Sequential, at any depth.  Other layers are members with a
// type, such as torch::nn::BatchNorm2d, which cannot refer to another class.  Declare these members
// as SyncBatchNorm: without a process group, the layer is a plain BatchNorm.
// convert_sync_batchnorm() does not skip them: it throws.
//
// Throws: c10::ValueError that names the layers, if one of them cannot be replaced.  In this case,
// no layer has been replaced.  Also throws c10::ValueError if `module` is null.
template <std::derived_from<torch::nn::Module> Module>
std::shared_ptr<Module> convert_sync_batchnorm(const std::shared_ptr<Module>& module,
                                               const Group& process_group = {}) {
  internal::convert_batch_norms(module, process_group);
  return module;
}
// Does the same for the module that a module holder holds.
template <class Net>
requires requires { typename Net::ContainedType; }
Net convert_sync_batchnorm(const Net& module, const Group& process_group = {}) {
  internal::convert_batch_norms(module.ptr(), process_group);
  return module;
}

}  // namespace distrun
