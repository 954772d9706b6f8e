#include "distrun/fsdp_module.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <unordered_map>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

#include "distrun/collectives.h"
#include "distrun/process_group.h"
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
  TORCH_CHECK_VALUE(!owners().has(one.tensor), kName, ": parameter '", one.name,
                    "' belongs to another unit; make one unit of the smallest module that has all "
                    "uses of the parameter");
  TORCH_CHECK_VALUE(one.tensor.layout() == at::kStrided, kName, ": parameter '", one.name, "' is ",
                    one.tensor.layout(), "; expected a dense one (to_dense())");
  TORCH_CHECK_VALUE(one.tensor.is_leaf(), kName, ": parameter '", one.name,
                    "' is not a leaf tensor, so it has no grad()");
  TORCH_CHECK_VALUE(one.tensor.device() == first.tensor.device(), kName, ": parameter '", one.name,
                    "' is on ", one.tensor.device(), " and '", first.name, "' on ",
                    first.tensor.device(), "; expected one device");
  TORCH_CHECK_VALUE(one.tensor.scalar_type() == first.tensor.scalar_type(), kName, ": parameter '",
                    one.name, "' has dtype ", one.tensor.scalar_type(), " and '", first.name, "' ",
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

std::string description(const NamedTensor& one) {
  return c10::str("'", one.name, "', ", one.tensor.scalar_type(), " ", one.tensor.sizes());
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// On every rank, throws the same error.
void check_agreement(const std::vector<NamedTensor>& parameters, const Group& group) {
  std::string own;
  for (const NamedTensor& one : parameters) own += description(one) + "\n";
  const std::vector<std::string> all = all_gather_bytes(own, group);
  const auto other = std::find_if(all.begin(), all.end(),
                                  [&](const std::string& one) { return one != all.front(); });
  if (other == all.end()) return;
  const auto expected = lines_of(all.front()), found = lines_of(*other);
  std::size_t i = 0;
  while (i < expected.size() && i < found.size() && expected[i] == found[i]) ++i;
  const auto line = [&](const std::vector<std::string>& lines) {
    return i < lines.size() ? lines[i] : std::string("none");
  };
  const auto& ranks = get_process_group_ranks(group);
  TORCH_CHECK_VALUE(false, kName, ": parameter ", i, " on rank ",
                    ranks[static_cast<std::size_t>(other - all.begin())], " is ", line(found),
                    ", and on rank ", ranks.front(), " ", line(expected),
                    "; all ranks must construct the same module");
}

FsdpOptions checked(const std::shared_ptr<torch::nn::Module>& module, const FsdpOptions& options) {
  TORCH_CHECK_VALUE(module, kName, ": module is null; expected a torch::nn::Module");
  TORCH_CHECK_VALUE(options.process_group.is_member(), kName, ": rank ", get_rank(),
                    " is not in its process_group");
  return options;
}

std::shared_ptr<FsdpUnit> make_unit(torch::nn::Module& module, const FsdpOptions& options) {
  std::vector<NamedTensor> own = own_parameters(module);
  check_agreement(own, options.process_group);
  if (options.sync_module_states) {
    const at::NoGradGuard no_grad;
    for (const ModuleTensor& one : tensors_of(module)) {
      if (one.is_parameter || one.unit != nullptr) continue;
      broadcast(one.tensor, GroupRank(0), {.group = options.process_group});
    }
  }
  auto unit = std::make_shared<FsdpUnit>(std::move(own), options);
  owners().add(unit);
  return unit;
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
  std::vector<at::Tensor> gradients, norms;
  std::optional<c10::Device> device;
  for (const FsdpModule* const one : units_of(*this)) {
    if (one->unit_->parameters().empty()) continue;
    device = one->unit_->parameters().device();
    for (const NamedTensor& parameter : one->unit_->parameters().parameters()) {
      const at::Tensor& gradient = parameter.tensor.grad();
      if (!gradient.defined() || gradient.numel() == 0) continue;
      gradients.push_back(gradient);
      norms.push_back(at::linalg_vector_norm(gradient, norm_type, std::nullopt, false, at::kFloat));
    }
  }
  const bool is_max = std::isinf(norm_type);
  at::Tensor norm = at::zeros({}, at::TensorOptions(at::kFloat).device(device.value_or(at::kCPU)));
  if (!norms.empty()) norm = at::linalg_vector_norm(at::stack(norms), norm_type);
  if (!is_max) norm = norm.pow(norm_type);
  all_reduce(norm, is_max ? ReduceOp::MAX : ReduceOp::SUM,
             {.group = unit_->options().process_group});
  if (!is_max) norm = norm.pow(1 / norm_type);
  const at::Tensor factor = (max_norm / (norm + 1e-6)).clamp_max(1);
  for (const at::Tensor& gradient : gradients) gradient.mul_(factor);
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
    state.insert(one.name, one.is_parameter ? whole.at(one.tensor.unsafeGetTensorImpl())
                                            : one.tensor.detach().clone());
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
