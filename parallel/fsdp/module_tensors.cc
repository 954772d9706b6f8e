#include "parallel/fsdp/module_tensors.h"

#include <algorithm>

#include "distrun/detail/divided_module.h"

namespace distrun::internal {

namespace {

void add_tensors(torch::nn::Module& module, const std::string& prefix, FsdpModule* unit,
                 std::vector<ModuleTensor>& all) {
  if (auto* const its = dynamic_cast<FsdpModule*>(&module)) {
    for (const auto& child : module.children()) add_tensors(*child, prefix, its, all);
    return;
  }
  for (const auto& one : module.named_parameters(/*recurse=*/false)) {
    if (!one.value().defined()) continue;
    all.push_back({prefix + one.key(), one.value(), true, unit, nullptr});
    const auto* const divided = dynamic_cast<const DividedModule*>(&module);
    if (divided != nullptr && divided->is_divided(one.key())) {
      all.back().parts = &divided->group_of_parts();
    }
  }
  for (const auto& one : module.named_buffers(/*recurse=*/false)) {
    if (one.value().defined()) {
      all.push_back({prefix + one.key(), one.value(), false, unit, nullptr});
    }
  }
  for (const auto& child : module.named_children()) {
    add_tensors(*child.value(), prefix + child.key() + ".", unit, all);
  }
}

}  // namespace

std::vector<ModuleTensor> tensors_of(torch::nn::Module& module) {
  std::vector<ModuleTensor> all;
  add_tensors(module, "", nullptr, all);
  return all;
}

std::vector<FsdpModule*> units_of(torch::nn::Module& module) {
  std::vector<FsdpModule*> units;
  const auto add = [&](FsdpModule* unit) {
    if (std::find(units.begin(), units.end(), unit) == units.end()) units.push_back(unit);
  };
  for (const auto& child : module.children()) {
    for (FsdpModule* const unit : units_of(*child)) add(unit);
  }
  if (auto* const unit = dynamic_cast<FsdpModule*>(&module)) add(unit);
  return units;
}

}  // namespace distrun::internal
