#include "parallel/optim/optimizer_facts.h"

#include <algorithm>
#include <exception>
#include <sstream>
#include <typeinfo>
#include <unordered_map>

#include <c10/util/Exception.h>
#include <c10/util/Type.h>
#include <torch/serialize/input-archive.h>
#include <torch/serialize/output-archive.h>

namespace distrun::internal {

namespace {

std::string type_of(const torch::optim::OptimizerOptions& options) {
  return c10::demangle(typeid(options).name());
}

std::string error_in_parameter(const std::string& name, const at::Tensor& parameter) {
  if (!parameter.defined()) return name + " is undefined";
  if (parameter.layout() != at::kStrided) {
    return c10::str(name, " is ", parameter.layout(), "; expected a dense one (to_dense())");
  }
  if (!parameter.is_leaf()) return name + " is not a leaf tensor, so it has no grad()";
  return "";
}

}  // namespace

std::string error_in_groups(const ParamGroups& groups, std::size_t first,
                            const torch::optim::OptimizerOptions& defaults) {
  std::unordered_map<const c10::TensorImpl*, std::size_t> group_of;
  bool is_empty = true;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const std::vector<at::Tensor>& parameters = groups[g].params();
    is_empty = is_empty && parameters.empty();
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const std::string name = c10::str("parameter ", i, " of group ", g);
      std::string error = g < first ? "" : error_in_parameter(name, parameters[i]);
      if (!error.empty()) return error;
      const auto [place, is_new] = group_of.emplace(parameters[i].unsafeGetTensorImpl(), g);
      if (!is_new && place->second != g) {
        return c10::str(name, " is in group ", place->second, ", too; list it in one group");
      }
    }
    if (g < first || !groups[g].has_options()) continue;
    if (typeid(groups[g].options()) != typeid(defaults)) {
      return c10::str("group ", g, " has ", type_of(groups[g].options()), "; expected ",
                      type_of(defaults));
    }
  }
  return is_empty ? "the groups have no parameters; pass those of your module" : "";
}

std::string text_of_options(const torch::optim::OptimizerOptions& options) {
  std::string text = type_of(options);
  try {
    torch::serialize::OutputArchive to;
    options.serialize(to);
    std::stringstream bytes;
    to.save_to(bytes);
    torch::serialize::InputArchive from;
    from.load_from(bytes);
    std::vector<std::string> keys = from.keys();
    std::sort(keys.begin(), keys.end());
    for (const std::string& key : keys) {
      c10::IValue value;
      if (from.try_read(key, value)) text += c10::str(" ", key, "=", value);
    }
  } catch (const c10::Error&) {
    // A class of your own without serialize().
  }
  return text;
}

std::string description_of_groups(const ParamGroups& groups, std::size_t first, bool with_strides) {
  std::string text;
  for (std::size_t g = first; g < groups.size(); ++g) {
    for (std::size_t i = 0; i < groups[g].params().size(); ++i) {
      const at::Tensor& one = groups[g].params()[i];
      text += c10::str("parameter ", i, " of group ", g, ", ", one.scalar_type(), " ", one.sizes());
      if (with_strides && !one.is_contiguous()) text += c10::str(" with strides ", one.strides());
      text += c10::str(" on ", one.device().type(), one.requires_grad() ? "" : ", frozen", "\n");
    }
    if (groups[g].has_options()) {
      text += c10::str(text_of_options(groups[g].options()), " for group ", g, "\n");
    }
  }
  return text;
}

std::string text_of_exception(const std::exception& error) {
  const auto* const ours = dynamic_cast<const c10::Error*>(&error);
  return ours != nullptr ? ours->what_without_backtrace() : error.what();
}

}  // namespace distrun::internal
