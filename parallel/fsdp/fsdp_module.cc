#include "distrun/fsdp_module.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <mutex>
#include <set>
#include <unordered_map>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

#include "distrun/collectives.h"
#include "distrun/process_group.h"
#include "parallel/agreement/rank_agreement.h"
#include "parallel/fsdp/fsdp_unit.h"
#include "parallel/fsdp/module_tensors.h"

namespace distrun {

namespace {

using internal::FsdpTree;
using internal::FsdpUnit;
using internal::ModuleTensor;
using internal::NamedTensor;
using internal::ShardRange;
using internal::tensors_of;
using internal::units_of;

constexpr const char* kName = "FullyShardedDataParallel";

// The units that own parameters, because a sharded parameter looks like any other.
class Owners {
 public:
  bool has(const at::Tensor& parameter) {
    const std::lock_guard lock(mutex_);
    const auto found = all_.find(parameter.unsafeGetTensorImpl());
    return found != all_.end() && !found->second.expired();
  }
  void add(const std::shared_ptr<FsdpUnit>& unit) {
    const std::lock_guard lock(mutex_);
    std::erase_if(all_, [](const auto& one) { return one.second.expired(); });
    // An address is not used again while its unit lives.
    for (const NamedTensor& one : unit->parameters().parameters()) {
      all_[one.tensor.unsafeGetTensorImpl()] = unit;
    }
  }

 private:
  std::mutex mutex_;
  std::unordered_map<const c10::TensorImpl*, std::weak_ptr<FsdpUnit>> all_;
};

Owners& owners() {
  static auto* const all = new Owners();
  return *all;
}

void check_parameter(const NamedTensor& one, const NamedTensor& first) {
  TORCH_CHECK_VALUE(!owners().has(one.tensor), "parameter '", one.name,
                    "' belongs to another unit; make one unit of the smallest module that has all "
                    "uses of the parameter");
  TORCH_CHECK_VALUE(one.tensor.layout() == at::kStrided, "parameter '", one.name, "' is ",
                    one.tensor.layout(), "; expected a dense one (to_dense())");
  TORCH_CHECK_VALUE(one.tensor.is_leaf(), "parameter '", one.name,
                    "' is not a leaf tensor, so it has no grad()");
  TORCH_CHECK_VALUE(one.tensor.device() == first.tensor.device(), "parameter '", one.name,
                    "' is on ", one.tensor.device(), " and '", first.name, "' on ",
                    first.tensor.device(), "; expected one device");
  TORCH_CHECK_VALUE(one.tensor.scalar_type() == first.tensor.scalar_type(), "parameter '", one.name,
                    "' has dtype ", one.tensor.scalar_type(), " and '", first.name, "' ",
                    first.tensor.scalar_type(),
                    "; expected one dtype: convert them, or make units of their modules");
}

// The parameters that belong to no inner unit, each once.
std::vector<NamedTensor> own_parameters(torch::nn::Module& module) {
  std::vector<NamedTensor> own;
  std::set<const c10::TensorImpl*> seen;
  for (const ModuleTensor& one : tensors_of(module)) {
    if (!one.is_parameter || one.unit != nullptr) continue;
    if (!seen.insert(one.tensor.unsafeGetTensorImpl()).second) continue;
    own.push_back({one.name, one.tensor});
    check_parameter(own.back(), own.front());
  }
  return own;
}

std::string description(const ModuleTensor& one) {
  return c10::str(one.is_parameter ? "parameter '" : "buffer '", one.name, "', ",
                  one.tensor.scalar_type(), " ", one.tensor.sizes(),
                  one.is_parameter && !one.tensor.requires_grad() ? ", frozen" : "");
}

// A line for each tensor that belongs to no inner unit, and for the options.
std::string description(torch::nn::Module& module, const FsdpOptions& options) {
  std::string text;
  for (const ModuleTensor& one : tensors_of(module)) {
    if (one.unit == nullptr) text += description(one) + "\n";
  }
  const auto name_of = [](const std::optional<at::ScalarType>& dtype) {
    return dtype ? c10::toString(*dtype) : "own";
  };
  return text + c10::str("the options param_dtype ", name_of(options.mp_policy.param_dtype),
                         ", reduce_dtype ", name_of(options.mp_policy.reduce_dtype),
                         ", sync_module_states ", options.sync_module_states, "\n");
}

FsdpOptions checked(const std::shared_ptr<torch::nn::Module>& module, const FsdpOptions& options) {
  TORCH_CHECK_VALUE(module, kName, ": module is null; expected a torch::nn::Module");
  TORCH_CHECK_VALUE(options.process_group.is_member(), kName, ": rank ", get_rank(),
                    " is not in its process_group");
  return options;
}

std::shared_ptr<FsdpUnit> make_unit(torch::nn::Module& module, const FsdpOptions& options) {
  std::vector<NamedTensor> own;
  std::string error;
  try {
    own = own_parameters(module);
  } catch (const c10::ValueError& thrown) {
    error = thrown.what_without_backtrace();  // Other ranks must not wait.
  }
  internal::check_agreement(kName, {description(module, options), error}, options.process_group,
                            "construct the same module with the same options");
  if (options.sync_module_states) {
    const at::NoGradGuard no_grad;
    for (const ModuleTensor& one : tensors_of(module)) {
      if (one.is_parameter || one.unit != nullptr) continue;
      broadcast(one.tensor, GroupRank(0), {.group = options.process_group});
    }
  }
  auto unit = FsdpUnit::make(std::move(own), options);
  owners().add(unit);
  return unit;
}

}  // namespace

namespace {

// Gradients of whole parameters, or of parts of parameters that lie on the ranks of a group.
struct GradientsOnRanks {
  const Group* parts = nullptr;  // Null: whole.
  std::vector<at::Tensor> gradients;
};

// On each rank the same groups in the same order, the whole parameters first.
std::vector<GradientsOnRanks> gradients_of(FsdpModule& module) {
  std::vector<GradientsOnRanks> all(1);
  std::set<const c10::TensorImpl*> seen;
  for (const ModuleTensor& one : tensors_of(module)) {
    if (!one.is_parameter || !seen.insert(one.tensor.unsafeGetTensorImpl()).second) continue;
    auto found = std::find_if(all.begin(), all.end(), [&](const GradientsOnRanks& its) {
      if (its.parts == nullptr || one.parts == nullptr) return its.parts == one.parts;
      return *its.parts == *one.parts;
    });
    if (found == all.end()) found = all.insert(found, {one.parts, {}});
    const at::Tensor& gradient = one.tensor.grad();
    if (gradient.defined() && gradient.numel() > 0) found->gradients.push_back(gradient);
  }
  return all;
}

at::Tensor norm_of(const std::vector<at::Tensor>& gradients, double type,
                   const at::TensorOptions& like) {
  const auto dtype = c10::typeMetaToScalarType(like.dtype());
  std::vector<at::Tensor> norms;
  norms.reserve(gradients.size());
  for (const at::Tensor& gradient : gradients) {
    norms.push_back(at::linalg_vector_norm(gradient, type, std::nullopt, false, dtype));
  }
  return at::linalg_vector_norm(at::stack(norms), type);
}

}  // namespace

FsdpModule::NoSync::NoSync(std::shared_ptr<FsdpTree> tree)
    : tree_(std::move(tree)), before_(std::exchange(tree_->syncs, false)) {}
FsdpModule::NoSync::~NoSync() { tree_->syncs = before_; }

FsdpModule::FsdpModule(const std::shared_ptr<torch::nn::Module>& module, const FsdpOptions& options)
    : torch::nn::Module(kName) {
  const FsdpOptions its = checked(module, options);
  const auto inner = units_of(*module);
  for (const FsdpModule* const one : inner) {
    TORCH_CHECK_VALUE(one->unit_->options().process_group == its.process_group, kName,
                      ": a unit within has another process_group; expected the same");
  }
  unit_ = make_unit(*module, its);
  register_module("module", module);
  const auto tree = std::make_shared<FsdpTree>();
  for (const FsdpModule* const one : units_of(*this)) {
    tree->units.push_back(one->unit_);
    one->unit_->join(tree);
  }
}

FsdpModule::~FsdpModule() = default;

FsdpModule::NoSync FsdpModule::no_sync() { return NoSync(unit_->tree()); }

at::Tensor FsdpModule::clip_grad_norm_(double max_norm, double norm_type) {
  TORCH_CHECK_VALUE(max_norm > 0 && norm_type > 0, "clip_grad_norm_: max_norm is ", max_norm,
                    " and norm_type ", norm_type, "; expected more than 0");
  const at::NoGradGuard no_grad;
  const bool is_max = std::isinf(norm_type);
  const std::vector<GradientsOnRanks> all = gradients_of(*this);
  // Double if a parameter is double.
  at::TensorOptions like(at::kFloat);
  for (const FsdpModule* const one : units_of(*this)) {
    const internal::ShardedParameters& parameters = one->unit_->parameters();
    if (parameters.empty()) continue;
    like =
        like.device(parameters.device())
            .dtype(at::promote_types(c10::typeMetaToScalarType(like.dtype()), parameters.dtype()));
  }
  at::Tensor sums = at::zeros({static_cast<std::int64_t>(all.size())}, like);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].gradients.empty()) continue;
    const at::Tensor norm = norm_of(all[i].gradients, norm_type, like);
    sums[static_cast<std::int64_t>(i)] = is_max ? norm : norm.pow(norm_type);
  }
  const ReduceOp op = is_max ? ReduceOp::MAX : ReduceOp::SUM;
  all_reduce(sums, op, {.group = unit_->options().process_group});
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].parts == nullptr) continue;
    all_reduce(sums[static_cast<std::int64_t>(i)], op, {.group = *all[i].parts});
  }
  at::Tensor norm = is_max ? sums.max() : sums.sum().pow(1 / norm_type);
  const at::Tensor factor = (max_norm / (norm + 1e-6)).clamp_max(1);
  for (const GradientsOnRanks& one : all) {
    for (const at::Tensor& gradient : one.gradients) gradient.mul_(factor);
  }
  return norm;
}

FsdpState FsdpModule::full_state_dict() {
  reshard();
  const at::NoGradGuard no_grad;
  std::map<const c10::TensorImpl*, at::Tensor> whole;
  for (const FsdpModule* const one : units_of(*this)) {
    internal::ShardedParameters& parameters = one->unit_->parameters();
    if (parameters.empty()) continue;
    const at::Tensor all = parameters.gathered();
    const internal::FlatLayout& layout = parameters.layout();
    for (std::size_t i = 0; i < layout.count(); ++i) {
      whole[parameters.parameters()[i].tensor.unsafeGetTensorImpl()] =
          all.narrow(0, layout.offset(i), layout.numel(i)).view(layout.sizes(i)).clone();
    }
  }
  FsdpState state;
  for (const ModuleTensor& one : tensors_of(*this)) {
    if (!one.is_parameter) {
      state.insert(one.name, one.tensor.detach().clone());
      continue;
    }
    const auto found = whole.find(one.tensor.unsafeGetTensorImpl());
    TORCH_CHECK_VALUE(found != whole.end(), kName, ": parameter '", one.name,
                      "' was registered after its unit was constructed; register it before");
    state.insert(one.name, found->second);
  }
  return state;
}

void FsdpModule::load_full_state_dict(const FsdpState& state) {
  reshard();
  struct Target {
    const internal::ShardedParameters* parameters;
    std::size_t index;
  };
  std::map<const c10::TensorImpl*, Target> targets;
  for (const FsdpModule* const one : units_of(*this)) {
    const auto& parameters = one->unit_->parameters();
    for (std::size_t i = 0; i < parameters.layout().count(); ++i) {
      targets[parameters.parameters()[i].tensor.unsafeGetTensorImpl()] = {&parameters, i};
    }
  }
  const auto all = tensors_of(*this);
  std::set<std::string> names;
  for (const ModuleTensor& one : all) {
    const at::Tensor* const given = state.find(one.name);
    TORCH_CHECK_VALUE(given != nullptr, "load_full_state_dict: '", one.name,
                      "' is missing in the state");
    const auto target = targets.find(one.tensor.unsafeGetTensorImpl());
    const at::IntArrayRef sizes =
        target == targets.end()
            ? one.tensor.sizes()
            : at::IntArrayRef(target->second.parameters->layout().sizes(target->second.index));
    TORCH_CHECK_VALUE(given->sizes() == sizes, "load_full_state_dict: '", one.name, "' has sizes ",
                      given->sizes(), "; expected ", sizes);
    names.insert(one.name);
  }
  for (const auto& one : state) {
    TORCH_CHECK_VALUE(names.contains(one.key()), "load_full_state_dict: the module has no '",
                      one.key(), "'");
  }
  const at::NoGradGuard no_grad;
  for (const ModuleTensor& one : all) {
    const at::Tensor& given = state[one.name];
    const auto target = targets.find(one.tensor.unsafeGetTensorImpl());
    if (target == targets.end()) {
      one.tensor.copy_(given);
      continue;
    }
    const auto& [parameters, index] = target->second;
    const ShardRange range = parameters->layout().range_of(index, parameters->rank());
    one.tensor.copy_(given.detach().reshape({-1}).narrow(0, range.in_parameter, range.size));
  }
}

std::vector<FsdpShard> FsdpModule::shards() {
  reshard();
  std::map<const c10::TensorImpl*, FsdpShard> by_tensor;
  for (const FsdpModule* const one : units_of(*this)) {
    const internal::ShardedParameters& parameters = one->unit_->parameters();
    for (std::size_t i = 0; i < parameters.layout().count(); ++i) {
      const at::Tensor& tensor = parameters.parameters()[i].tensor;
      by_tensor[tensor.unsafeGetTensorImpl()] = {
          .sizes = parameters.layout().sizes(i),
          .offset = parameters.layout().range_of(i, parameters.rank()).in_parameter,
          .values = tensor.detach()};
    }
  }
  std::vector<FsdpShard> shards;
  for (const ModuleTensor& one : tensors_of(*this)) {
    const auto found = by_tensor.find(one.tensor.unsafeGetTensorImpl());
    if (found == by_tensor.end()) continue;  // A buffer, or a second name.
    found->second.name = one.name;
    shards.push_back(std::move(found->second));
    by_tensor.erase(found);
  }
  return shards;
}

void FsdpModule::unshard() {
  for (const FsdpModule* const one : units_of(*this)) one->unit_->parameters().finish_unshard();
}

void FsdpModule::reshard() {
  for (const FsdpModule* const one : units_of(*this)) one->unit_->parameters().reshard();
}

namespace {

[[noreturn]] void refuse_to_move() {
  TORCH_CHECK(false, kName,
              ": a sharded module cannot be moved or converted; move it before it is sharded");
}

}  // namespace

void FsdpModule::zero_grad(bool set_to_none) {
  for (const FsdpModule* const one : units_of(*this)) one->unit_->parameters().forget_kept();
  torch::nn::Module::zero_grad(set_to_none);
}

void FsdpModule::save(torch::serialize::OutputArchive& /*archive*/) const {
  TORCH_CHECK(false, kName, ": torch::save() would save shards; save full_state_dict()");
}
void FsdpModule::load(torch::serialize::InputArchive& /*archive*/) {
  TORCH_CHECK(false, kName, ": torch::load() would replace shards; use load_full_state_dict()");
}

void FsdpModule::to(torch::Device /*device*/, torch::Dtype /*dtype*/, bool /*non_blocking*/) {
  refuse_to_move();
}
void FsdpModule::to(torch::Dtype /*dtype*/, bool /*non_blocking*/) { refuse_to_move(); }
void FsdpModule::to(torch::Device /*device*/, bool /*non_blocking*/) { refuse_to_move(); }

FsdpModule::Forward::Forward(const std::shared_ptr<FsdpUnit>& unit)
    : call_(std::make_shared<internal::FsdpForwardCall>(unit)) {}
FsdpModule::Forward::~Forward() { call_->close(); }

at::Tensor FsdpModule::Forward::input(const at::Tensor& tensor) { return call_->input(tensor); }

std::vector<at::Tensor> FsdpModule::Forward::end(std::vector<at::Tensor> outputs) {
  return call_->end(std::move(outputs));
}

}  // namespace distrun
