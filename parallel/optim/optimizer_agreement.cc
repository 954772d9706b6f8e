#include "parallel/optim/optimizer_agreement.h"

#include <algorithm>
#include <exception>
#include <sstream>
#include <typeinfo>
#include <unordered_map>

#include <c10/util/Exception.h>
#include <c10/util/Type.h>
#include <torch/serialize/input-archive.h>
#include <torch/serialize/output-archive.h>

#include "distrun/collectives.h"
#include "distrun/process_group.h"

namespace distrun::internal {

namespace {

constexpr const char* kName = "ZeroRedundancyOptimizer";

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

std::vector<std::string> lines_in(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
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
      const std::string error = g < first ? "" : error_in_parameter(name, parameters[i]);
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

void check_optimizers_agree(const std::string& own_error, const std::string& own_description,
                            const Group& group) {
  const std::vector<int> ranks = get_process_group_ranks(group);
  // A rank that has an error can have no description.
  const std::vector<std::string> errors = all_gather_bytes(own_error, group);
  for (std::size_t i = 0; i < errors.size(); ++i) {
    TORCH_CHECK_VALUE(errors[i].empty(), kName, ": ", errors[i], " (on rank ", ranks[i], ")");
  }
  const std::vector<std::string> all = all_gather_bytes(own_description, group);
  const auto other = std::find_if(all.begin(), all.end(),
                                  [&](const std::string& one) { return one != all.front(); });
  if (other == all.end()) return;
  const auto expected = lines_in(all.front()), found = lines_in(*other);
  std::size_t i = 0;
  while (i < expected.size() && i < found.size() && expected[i] == found[i]) ++i;
  const auto line = [&](const std::vector<std::string>& lines) {
    return i < lines.size() ? lines[i] : std::string("nothing");
  };
  TORCH_CHECK_VALUE(false, kName, ": rank ", ranks[static_cast<std::size_t>(other - all.begin())],
                    " has ", line(found), ", and rank ", ranks.front(), " has ", line(expected),
                    "; all ranks must have the same parameters and options");
}

}  // namespace distrun::internal
