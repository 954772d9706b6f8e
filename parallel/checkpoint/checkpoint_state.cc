#include "parallel/checkpoint/checkpoint_state.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include <ATen/ops/full.h>
#include <ATen/ops/zeros_like.h>
#include <c10/util/ArrayRef.h>
#include <c10/util/Exception.h>
#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include "common/text/valid_utf8.h"
#include "distrun/detail/divided_optimizer.h"
#include "parallel/checkpoint/box.h"
#include "parallel/checkpoint/optimizer_fields.h"
#include "parallel/checkpoint/safetensors.h"

namespace distrun {

namespace {

using internal::AddedOptimizer;
using internal::Box;
using internal::OptimizerField;
using internal::TensorPlace;

std::string name_of_field(const AddedOptimizer& added, const TensorPlace& place,
                          const OptimizerField& field) {
  return added.prefix + "state." + place.name + "." + field.name;
}

std::vector<OptimizerField> fields_at(const AddedOptimizer& added, const TensorPlace& place,
                                      bool creates) {
  return internal::fields_of(*added.optimizer, place.tensor, creates).value();
}

// Adds a field that the checkpoint has. A number and a new tensor are set after the values are
// loaded.
void add_to_load(internal::StateToLoad& all, const TensorPlace& place, const std::string& name,
                 const OptimizerField& field) {
  if (field.number != nullptr) {
    const at::Tensor number = at::full({}, *field.number, at::kLong);
    all.state.add(name, number);
    all.at_end.emplace_back([number, to = field.number] { *to = number.item<std::int64_t>(); });
    return;
  }
  at::Tensor values = *field.tensor;
  if (!values.defined() || values.sizes() != place.tensor.sizes()) {
    values = at::zeros_like(place.tensor, at::MemoryFormat::Contiguous);
    all.at_end.emplace_back([values, to = field.tensor] { *to = values; });
  }
  for (CheckpointPart& part : internal::parts_of(place, name, values)) {
    all.state.add_part(std::move(part));
  }
}

void check_values(const std::string& name, const at::Tensor& values) {
  TORCH_CHECK_VALUE(values.defined(), "CheckpointState: '", valid_utf8(name),
                    "' is an undefined tensor");
  TORCH_CHECK_VALUE(values.layout() == at::kStrided && !values.is_meta(), "CheckpointState: '",
                    valid_utf8(name), "' is a ", values.layout(), " tensor on ", values.device(),
                    "; expected a dense tensor that has values");
}

}  // namespace

void CheckpointState::add_part(CheckpointPart part) {
  check_values(part.name, part.values);
  const Box box{part.offsets, part.values.sizes().vec()};
  bool fits = box.offsets.size() == part.sizes.size() && box.sizes.size() == part.sizes.size();
  for (std::size_t d = 0; fits && d < part.sizes.size(); ++d) {
    fits = box.offsets[d] >= 0 && box.sizes[d] <= part.sizes[d] &&
           box.offsets[d] <= part.sizes[d] - box.sizes[d];
  }
  TORCH_CHECK_VALUE(fits, "CheckpointState: the part of '", part.name, "' at ",
                    c10::IntArrayRef(part.offsets), " with sizes ", part.values.sizes(),
                    " is not within the sizes of the tensor, ", c10::IntArrayRef(part.sizes));
  TORCH_CHECK_VALUE(internal::has_safetensors_dtype(part.values.scalar_type()),
                    "CheckpointState: '", part.name, "' has dtype ", part.values.scalar_type(),
                    ", which safetensors files do not have");
  TORCH_CHECK_VALUE(valid_utf8(part.name) == part.name, "CheckpointState: the name '",
                    valid_utf8(part.name), "' is not valid UTF-8");
  TORCH_CHECK_VALUE(part.name != "__metadata__",
                    "CheckpointState: '__metadata__' cannot be the name of a tensor");
  const bool is_new = added_.emplace(part.name, part.offsets).second;
  TORCH_CHECK_VALUE(is_new, "CheckpointState: '", part.name, "' at ",
                    c10::IntArrayRef(part.offsets), " is added twice; use a prefix");
  part.values = part.values.detach();
  parts_.push_back(std::move(part));
}

void CheckpointState::add(const std::string& name, const at::Tensor& tensor) {
  check_values(name, tensor);
  add_part({name, tensor.sizes().vec(),
            std::vector<std::int64_t>(static_cast<std::size_t>(tensor.dim()), 0), tensor});
}

void CheckpointState::add_module(torch::nn::Module& module, const std::string& prefix) {
  for (const TensorPlace& place : internal::places_in(module)) {
    for (CheckpointPart& part : internal::parts_of(place, prefix + place.name, place.tensor)) {
      add_part(std::move(part));
    }
  }
}

void CheckpointState::add_optimizer(torch::optim::Optimizer& optimizer, torch::nn::Module& module,
                                    const std::string& prefix) {
  AddedOptimizer added{.optimizer = &optimizer, .prefix = prefix, .places = {}};
  const auto places = internal::places_in(module);
  const auto* const divided = dynamic_cast<const internal::DividedOptimizer*>(&optimizer);
  std::set<const c10::TensorImpl*> seen;  // Module::parameters() has a shared one several times.
  for (const auto& group : optimizer.param_groups()) {
    for (const at::Tensor& parameter : group.params()) {
      if (divided != nullptr && !divided->updates(parameter)) continue;
      if (!seen.insert(parameter.unsafeGetTensorImpl()).second) continue;
      const auto place = std::find_if(places.begin(), places.end(), [&](const TensorPlace& one) {
        return one.tensor.is_same(parameter);
      });
      TORCH_CHECK_VALUE(place != places.end(),
                        "CheckpointState: the optimizer has a parameter with sizes ",
                        parameter.sizes(), " that the module does not have");
      TORCH_CHECK_TYPE(
          internal::fields_of(optimizer, parameter, /*creates=*/false).has_value(),
          "CheckpointState: the class of the optimizer is not supported; expected SGD, "
          "Adam, AdamW, RMSprop or Adagrad");
      added.places.push_back(*place);
    }
  }
  optimizers_.push_back(std::make_shared<const AddedOptimizer>(std::move(added)));
}

namespace internal {

CheckpointState state_to_save(const CheckpointState& state) {
  CheckpointState all = state;
  for (const auto& added : CheckpointAccess::optimizers(state)) {
    for (const TensorPlace& place : added->places) {
      for (const OptimizerField& field : fields_at(*added, place, /*creates=*/false)) {
        const std::string name = name_of_field(*added, place, field);
        if (field.number != nullptr) {
          all.add(name, at::full({}, *field.number, at::kLong));
        } else if (field.tensor->defined()) {
          for (CheckpointPart& part : parts_of(place, name, *field.tensor)) {
            all.add_part(std::move(part));
          }
        }
      }
    }
  }
  return all;
}

StateToLoad state_to_load(const CheckpointState& state,
                          const std::function<bool(const std::string&)>& has) {
  StateToLoad all(state);
  for (const auto& added : CheckpointAccess::optimizers(state)) {
    auto& kept = added->optimizer->state();
    for (const TensorPlace& place : added->places) {
      void* const key = place.tensor.unsafeGetTensorImpl();
      const bool is_new = kept.find(key) == kept.end();
      const auto forget = [optimizer = added->optimizer, key] { optimizer->state().erase(key); };
      if (is_new) all.undo.emplace_back(forget);
      bool has_any = false;
      for (const OptimizerField& field : fields_at(*added, place, /*creates=*/true)) {
        const std::string name = name_of_field(*added, place, field);
        if (!has(name)) continue;
        has_any = true;
        add_to_load(all, place, name, field);
      }
      if (!has_any) all.at_end.emplace_back(forget);  // As before its first step.
    }
  }
  return all;
}

}  // namespace internal

}  // namespace distrun
