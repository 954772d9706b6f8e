#include "parallel/ddp/model_sync.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include <c10/util/Exception.h>
#include <torch/csrc/distributed/c10d/comm.hpp>

namespace distrun::internal {

namespace {

// Tensors up to this total are sent as one, as in Python.
constexpr std::size_t kBroadcastBytes = std::size_t{250} * 1024 * 1024;

template <class Named>
void remove_ignored_and_repeated(std::vector<Named>& all, const std::set<std::string>& ignored) {
  std::unordered_set<const c10::TensorImpl*> seen;
  std::erase_if(all, [&](const Named& one) {
    if (ignored.contains(one.name)) return true;
    return one.tensor.defined() && !seen.insert(one.tensor.unsafeGetTensorImpl()).second;
  });
}

std::vector<DdpBuffer> buffers_of(const DdpModel& model) {
  return model.buffers ? model.buffers() : std::vector<DdpBuffer>();
}

void check_ignored(const DdpModel& model, const std::set<std::string>& ignored) {
  std::set<std::string> names;
  for (const auto& one : model.parameters) names.insert(one.name);
  for (const auto& one : buffers_of(model)) names.insert(one.name);
  for (const std::string& name : ignored) {
    TORCH_CHECK_VALUE(names.contains(name), "DistributedDataParallel: parameters_to_ignore has '",
                      name, "', but ", model.name, " has no parameter or buffer of that name");
  }
}

void check_parameters(const DdpModel& model) {
  for (const DdpParameter& one : model.parameters) {
    TORCH_CHECK_VALUE(one.tensor.defined(), "DistributedDataParallel: parameter '", one.name,
                      "' is undefined; create it, or run a forward that creates it, first");
    TORCH_CHECK_VALUE(one.tensor.layout() == at::kStrided, "DistributedDataParallel: parameter '",
                      one.name, "' is ", one.tensor.layout(),
                      "; expected a dense one (to_dense()), whose gradient may be sparse (COO)");
    TORCH_CHECK_VALUE(one.tensor.is_leaf(), "DistributedDataParallel: parameter '", one.name,
                      "' is not a leaf tensor, so it has no grad()");
    TORCH_CHECK_VALUE(one.tensor.device().type() == model.parameters.front().tensor.device().type(),
                      "DistributedDataParallel: parameter '", one.name, "' is on ",
                      one.tensor.device(), " and '", model.parameters.front().name, "' on ",
                      model.parameters.front().tensor.device(), ": expected devices of one type");
  }
  const bool has_gradient =
      std::any_of(model.parameters.begin(), model.parameters.end(),
                  [](const DdpParameter& one) { return one.tensor.requires_grad(); });
  TORCH_CHECK_VALUE(has_gradient, "DistributedDataParallel: no parameter of ", model.name,
                    " requires a gradient, so there is nothing to reduce");
}

}  // namespace

DdpModel participants(DdpModel model, const std::set<std::string>& ignored) {
  check_ignored(model, ignored);
  remove_ignored_and_repeated(model.parameters, ignored);
  check_parameters(model);
  if (model.buffers) {
    model.buffers = [all = std::move(model.buffers), ignored] {
      auto buffers = all();
      std::erase_if(buffers, [](const DdpBuffer& one) { return !one.tensor.defined(); });
      remove_ignored_and_repeated(buffers, ignored);
      return buffers;
    };
  }
  return model;
}

void broadcast_all(const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                   const std::vector<at::Tensor>& tensors, int source) {
  if (!tensors.empty()) c10d::broadcast_coalesced(group, tensors, kBroadcastBytes, source);
}

void broadcast_buffers(const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                       const std::vector<DdpBuffer>& buffers, int source) {
  std::vector<at::Tensor> tensors;
  std::vector<uint32_t> versions;
  for (const DdpBuffer& one : buffers) {
    tensors.push_back(one.tensor.detach());
    versions.push_back(one.tensor.is_inference() ? 0 : one.tensor._version());
  }
  broadcast_all(group, tensors, source);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (buffers[i].tensor.is_inference()) continue;
    c10::VariableVersion version = buffers[i].tensor.unsafeGetTensorImpl()->version_counter();
    version.set_version(versions[i]);
  }
}

}  // namespace distrun::internal
