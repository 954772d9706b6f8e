// Pipeline parallelism: each rank has a part of the layers of a model, called a stage.  A batch is
// split into micro-batches, which pass through the stages one after the other.
//
//     init_process_group("gloo");
//     const int rank = get_rank(), ranks = get_world_size();
//     PipelineStage stage(layers_of(rank), rank, ranks);           // This rank's layers only.
//     Schedule1F1B schedule(stage, /*n_microbatches=*/8,
//                           [](const at::Tensor& output, const at::Tensor& target) {
//                             return at::cross_entropy_loss(output, target);
//                           });
//     torch::optim::SGD optimizer(stage.module()->parameters(), 0.1);
//     for (const auto& [images, digits] : batches) {
//       optimizer.zero_grad();
//       schedule.step({.args = {images}, .target = digits});
//       optimizer.step();
//     }
//
// A stage wraps the module of this rank.  The module is a torch::nn::Module or a module holder.
// Its forward() takes one to eight tensors, or a std::vector<at::Tensor>.  The outputs of a stage
// are the arguments of the next one, so they must have as many tensors: the tensors in the result
// of forward(), in the order of visit_tensors.h.  The result of the last stage can have any tensors
// that its loss function takes.
//
// A tensor that a later stage needs must pass through all stages between.  During a step, a stage
// must not change an input or an output in place.
//
// Stages can be replicated (DistributedDataParallel) or sharded (FullyShardedDataParallel).  Let
// the module of the stage be the wrapper, with another dimension of the mesh as its group:
//
//     const DeviceMesh mesh = init_device_mesh(at::kCPU, {2, 4}, {"dp", "pp"});
//     const auto ddp = std::make_shared<DistributedDataParallel<Net>>(
//         net, DdpOptions{.process_group = mesh.get_group("dp")});
//     PipelineStage stage(ddp, mesh.get_local_rank("pp"), 4, {.group = mesh.get_group("pp")});
//
// step() then reduces the gradients once, in the backward of the last micro-batch, which must use
// the parameters.  If the wrapper is only a part of the stage's module, FullyShardedDataParallel
// reduces for every micro-batch, which is slower, and DistributedDataParallel is not supported.
// DdpOptions::static_graph is not supported with several micro-batches.
//
// Each rank saves the parameters of its stage, with torch::save(stage.module(), …).
//
// Throws: the constructor throws c10::ValueError if the module is null, if this rank is not in the
// group, if the group does not have `num_stages` ranks, if `stage_index` is not this rank's group
// rank, or if a DistributedDataParallel reduces a parameter and is not the stage's module itself.
// Thread safety: one thread at a time.
// Cost: see pipeline_schedule.h.
// PyTorch source: torch/distributed/pipelining/stage.py.
#pragma once

#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include <c10/util/Exception.h>
#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include "distrun/detail/module_traits.h"
#include "distrun/pipeline_schedule.h"
#include "distrun/visit_tensors.h"

namespace distrun {

namespace internal {

template <std::size_t>
using TensorArgument = at::Tensor&;

// Whether a module's forward() takes so many tensors.
template <class Module, std::size_t... i>
constexpr bool forwards_tensors(std::index_sequence<i...>) {
  return ForwardsWith<Module, TensorArgument<i>...>;
}

inline constexpr std::size_t kPipelineArgumentsMax = 8;

template <class Output>
std::vector<at::Tensor> tensors_of(Output output) {
  static_assert(KnowsTensors<Output>,
                "distrun cannot find the tensors in the result of forward(): write a "
                "visit_tensors() for its type, see distrun/visit_tensors.h");
  std::vector<at::Tensor> tensors;
  if constexpr (KnowsTensors<Output>) {
    for_each_tensor(output, [&](at::Tensor& tensor) { tensors.push_back(tensor); });
  }
  return tensors;
}

// Calls forward() with the inputs as arguments. `count` is the first number of arguments to try.
template <std::size_t count = 1, class Module>
std::vector<at::Tensor> forward_tensors(Module& module, std::vector<at::Tensor> inputs) {
  if constexpr (count > kPipelineArgumentsMax) {
    if constexpr (ForwardsWith<Module, std::vector<at::Tensor>&>) {
      return internal::tensors_of(module.forward(inputs));
    }
    TORCH_CHECK_VALUE(false, "PipelineStage: the stage gets ", inputs.size(),
                      " tensors, but forward() of ", module.name(), " does not take so many");
    return {};
  } else {
    if constexpr (forwards_tensors<Module>(std::make_index_sequence<count>())) {
      if (inputs.size() == count) {
        return [&]<std::size_t... i>(std::index_sequence<i...>) {
          return internal::tensors_of(module.forward(inputs[i]...));
        }
        (std::make_index_sequence<count>());
      }
    }
    return internal::forward_tensors<count + 1>(module, std::move(inputs));
  }
}

// DistributedDataParallel must not see that a micro-batch is the last before its backward, because
// it would reduce in the backward of an earlier one.
template <class Module>
concept HasReducer = requires(Module& module) {
  module.no_sync();
  module.reducer().before_forward();
  module.reducer().after_forward(std::vector<at::Tensor>());
};

// FullyShardedDataParallel reduces in the backward of a forward without no_sync().
template <class Module>
concept HasNoSync = requires(Module& module) {
  module.no_sync();
};

template <class Module>
PipelineStageCalls stage_calls(const std::shared_ptr<Module>& module) {
  PipelineStageCalls calls;
  calls.has_reducer = HasReducer<Module>;
  calls.forward = [module](const std::vector<at::Tensor>& inputs, [[maybe_unused]] bool is_last) {
    if constexpr (HasReducer<Module>) {
      const auto alone = module->no_sync();
      return internal::forward_tensors(*module, inputs);
    } else if constexpr (HasNoSync<Module>) {
      if (!is_last) {
        const auto alone = module->no_sync();
        return internal::forward_tensors(*module, inputs);
      }
    }
    return internal::forward_tensors(*module, inputs);
  };
  calls.before_last_backward = [module](std::vector<at::Tensor> outputs) {
    if constexpr (HasReducer<Module>) {
      module->reducer().before_forward();
      return module->reducer().after_forward(std::move(outputs));
    } else {
      return outputs;
    }
  };
  return calls;
}

}  // namespace internal

// Net is a torch::nn::Module or a module holder (TORCH_MODULE).  Copies refer to the same stage.
template <class Net>
class PipelineStage : public PipelineStageBase {
 public:
  // The class of the module.  If Net is a module holder, it is the class that Net holds.  Otherwise
  // it is Net.
  using ModuleType = typename internal::ModuleOf<Net>::Type;
  static_assert(std::is_base_of_v<torch::nn::Module, ModuleType>,
                "PipelineStage needs a torch::nn::Module");

  // Keeps a reference to the module.  Does not communicate.
  PipelineStage(std::shared_ptr<ModuleType> module, int stage_index, int num_stages,
                const PipelineStageOptions& options = {})
      : PipelineStageBase(module, internal::stage_calls(module), stage_index, num_stages, options),
        module_(std::move(module)) {}
  // Does the same for the module that a module holder holds.
  PipelineStage(const Net& holder, int stage_index, int num_stages,
                const PipelineStageOptions& options = {}) requires requires {
    holder.ptr();
  } : PipelineStage(holder.is_empty() ? nullptr : holder.ptr(), stage_index, num_stages, options) {
  }

  // Returns your module.
  const std::shared_ptr<ModuleType>& module() const { return module_; }

 private:
  std::shared_ptr<ModuleType> module_;
};

// A deduction guide: deduces Net from a pointer to a module.
template <class Net>
PipelineStage(std::shared_ptr<Net>, int, int, PipelineStageOptions = {}) -> PipelineStage<Net>;

}  // namespace distrun
