#include "distrun/distributed_data_parallel.h"

#include <c10/util/Exception.h>
#include <torch/nn/modules/embedding.h>

namespace distrun {

namespace {

bool has_sparse_gradients(const torch::nn::Module& module) {
  if (const auto* one = module.as<torch::nn::EmbeddingImpl>()) return one->options.sparse();
  if (const auto* one = module.as<torch::nn::EmbeddingBagImpl>()) return one->options.sparse();
  return false;
}

// In the order of Python's named_modules(): a module's own parameters, then its children's.
void add_parameters(const torch::nn::Module& module, const std::string& prefix,
                    std::vector<DdpParameter>& parameters) {
  const bool sparse = has_sparse_gradients(module);
  for (const auto& one : module.named_parameters(/*recurse=*/false)) {
    parameters.push_back({prefix + one.key(), one.value(), sparse});
  }
  for (const auto& child : module.named_children()) {
    add_parameters(*child.value(), prefix + child.key() + ".", parameters);
  }
}

}  // namespace

DdpModel ddp_model(const std::shared_ptr<torch::nn::Module>& module) {
  TORCH_CHECK_VALUE(module,
                    "DistributedDataParallel: module is null; expected a torch::nn::Module");
  DdpModel model{.name = module->name()};
  add_parameters(*module, "", model.parameters);
  model.buffers = [module] {
    std::vector<DdpBuffer> buffers;
    for (const auto& one : module->named_buffers()) buffers.push_back({one.key(), one.value()});
    return buffers;
  };
  return model;
}

}  // namespace distrun
