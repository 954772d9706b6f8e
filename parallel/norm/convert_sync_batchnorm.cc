// Replaces the batch normalizations of a module.
#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <typeinfo>
#include <vector>

#include <c10/util/Exception.h>
#include <torch/nn/modules/container/any.h>
#include <torch/nn/modules/container/sequential.h>

#include "distrun/sync_batch_norm.h"

namespace distrun {

namespace {

// An element of a Sequential that is to be replaced.
struct Replacement {
  torch::nn::SequentialImpl* parent;
  std::string name;
  std::shared_ptr<torch::nn::Module> plain;
};

struct Layers {
  std::vector<Replacement> replacements;
  std::vector<SyncBatchNormImpl*> converted;
  std::vector<std::string> refused;
};

template <class Plain>
bool is_a(const torch::nn::Module& module) {
  return dynamic_cast<const Plain*>(&module) != nullptr;
}

bool is_batch_norm(const torch::nn::Module& module) {
  return is_a<torch::nn::BatchNorm1dImpl>(module) || is_a<torch::nn::BatchNorm2dImpl>(module) ||
         is_a<torch::nn::BatchNorm3dImpl>(module);
}

// Otherwise, it is of a class that derives from one of these, which has its own forward().
bool is_exactly_batch_norm(const torch::nn::Module& module) {
  const std::type_info& type = typeid(module);
  return type == typeid(torch::nn::BatchNorm1dImpl) || type == typeid(torch::nn::BatchNorm2dImpl) ||
         type == typeid(torch::nn::BatchNorm3dImpl);
}

// A class that derives from Sequential can have other children.
bool has_element(torch::nn::SequentialImpl& parent, const torch::nn::Module& module) {
  return std::any_of(parent.begin(), parent.end(), [&](const torch::nn::AnyModule& element) {
    return element.ptr().get() == &module;
  });
}

void find_layers(torch::nn::Module& module, const std::string& prefix, Layers& layers) {
  auto* const parent = dynamic_cast<torch::nn::SequentialImpl*>(&module);
  for (const auto& child : module.named_children()) {
    const std::string name = prefix + child.key();
    const std::shared_ptr<torch::nn::Module>& layer = child.value();
    if (auto* const converted = dynamic_cast<SyncBatchNormImpl*>(layer.get())) {
      layers.converted.push_back(converted);
    } else if (!is_batch_norm(*layer)) {
      find_layers(*layer, name + ".", layers);
    } else if (parent != nullptr && has_element(*parent, *layer) && is_exactly_batch_norm(*layer)) {
      layers.replacements.push_back({parent, child.key(), layer});
    } else {
      layers.refused.push_back(c10::str("'", name, "' (", layer->name(), ")"));
    }
  }
}

void throw_if_any(const std::vector<std::string>& refused) {
  if (refused.empty()) return;
  constexpr std::size_t kNamesMax = 5;
  std::string names = refused.front();
  for (std::size_t i = 1; i < std::min(refused.size(), kNamesMax); ++i) names += ", " + refused[i];
  if (refused.size() > kNamesMax) names += c10::str(" and ", refused.size() - kNamesMax, " more");
  TORCH_CHECK_VALUE(false, "convert_sync_batchnorm: cannot replace ", names,
                    ", and has replaced no layer; only elements of torch::nn::Sequential with one "
                    "of LibTorch's classes can be replaced: declare the others as "
                    "distrun::SyncBatchNorm");
}

// Returns null if the layer is of another class.
template <class Plain>
std::shared_ptr<SyncBatchNormImpl> converted(const torch::nn::Module& layer, const Group& group) {
  const auto* const plain = dynamic_cast<const Plain*>(&layer);
  return plain == nullptr ? nullptr : std::make_shared<SyncBatchNormImpl>(*plain, group);
}
std::shared_ptr<SyncBatchNormImpl> converted_layer(const torch::nn::Module& layer,
                                                   const Group& group) {
  if (auto made = converted<torch::nn::BatchNorm1dImpl>(layer, group)) return made;
  if (auto made = converted<torch::nn::BatchNorm2dImpl>(layer, group)) return made;
  return converted<torch::nn::BatchNorm3dImpl>(layer, group);
}

}  // namespace

void internal::convert_batch_norms(const std::shared_ptr<torch::nn::Module>& root,
                                   const Group& process_group) {
  TORCH_CHECK_VALUE(root, "convert_sync_batchnorm: the module is null");
  torch::nn::Module& module = *root;
  TORCH_CHECK_VALUE(!is_batch_norm(module), "convert_sync_batchnorm: the module itself is a ",
                    module.name(),
                    "; pass it as a torch::nn::BatchNorm1d, BatchNorm2d or "
                    "BatchNorm3d, and use the result in its place");
  Layers layers;
  if (auto* const own = dynamic_cast<SyncBatchNormImpl*>(&module)) layers.converted.push_back(own);
  find_layers(module, "", layers);
  throw_if_any(layers.refused);
  // A layer with two names remains one layer.
  std::map<torch::nn::Module*, std::shared_ptr<SyncBatchNormImpl>> made;
  for (const Replacement& one : layers.replacements) {
    auto& layer = made[one.plain.get()];
    if (!layer) layer = converted_layer(*one.plain, process_group);
    for (torch::nn::AnyModule& element : *one.parent) {
      if (element.ptr() == one.plain) element = layer;
    }
    one.parent->replace_module(one.name, layer);
  }
  for (SyncBatchNormImpl* const one : layers.converted) one->process_group = process_group;
}

SyncBatchNorm convert_sync_batchnorm(const torch::nn::BatchNorm1d& layer,
                                     const Group& process_group) {
  return SyncBatchNorm(*layer, process_group);
}
SyncBatchNorm convert_sync_batchnorm(const torch::nn::BatchNorm2d& layer,
                                     const Group& process_group) {
  return SyncBatchNorm(*layer, process_group);
}
SyncBatchNorm convert_sync_batchnorm(const torch::nn::BatchNorm3d& layer,
                                     const Group& process_group) {
  return SyncBatchNorm(*layer, process_group);
}

}  // namespace distrun
