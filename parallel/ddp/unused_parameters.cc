#include "parallel/ddp/unused_parameters.h"

#include <string_view>

namespace distrun::internal {

namespace {

// The rest of the line after "Parameters which did not receive grad for rank 0: ".
std::string names_in(std::string_view error) {
  constexpr std::string_view kBefore = "Parameters which did not receive grad for rank ";
  auto place = error.find(kBefore);
  if (place != error.npos) place = error.find(": ", place);
  if (place == error.npos) return "some parameters";
  const std::string_view names = error.substr(place + 2);
  return std::string(names.substr(0, names.find_first_of("\n")));
}

const char* advice(const DdpOptions& options) {
  if (options.static_graph) {
    return "with DdpOptions::static_graph every iteration uses the same parameters; leave it out, "
           "or use them all";
  }
  if (options.find_unused_parameters) {
    return "let forward() return only outputs that the loss uses, and let visit_tensors() find "
           "all of them";
  }
  return "set DdpOptions::find_unused_parameters if forward() does not use every parameter; let "
         "it return only outputs that the loss uses";
}

}  // namespace

std::optional<std::string> advice_on_unused_parameters(const std::string& error,
                                                       const DdpOptions& options) {
  // The Reducer lacks only the end of backward().
  if (error.find("!unmarked_param_indices.empty()") != error.npos) {
    return "the last backward() threw, so it did not average the gradients; construct a new "
           "DistributedDataParallel";
  }
  if (error.find("Expected to have finished reduction in the prior iteration") == error.npos) {
    return std::nullopt;
  }
  return "the last backward() computed no gradient of " + names_in(error) + ": " + advice(options);
}

}  // namespace distrun::internal
