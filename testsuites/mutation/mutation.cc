#include "testsuites/mutation/mutation.h"

#include <cstdlib>
#include <map>
#include <stdexcept>

#include "testsuites/mutation/mutated_backend.h"

namespace distrun {

namespace {

const std::map<std::string, Mutation>& names() {
  static const std::map<std::string, Mutation> all = {
      {"wrong_root", Mutation::kWrongRoot},
      {"dropped_wait", Mutation::kDroppedWait},
      {"missing_division", Mutation::kMissingDivision},
      {"stale_output", Mutation::kStaleOutput},
      {"wrong_reduce_op", Mutation::kWrongReduceOp},
  };
  return all;
}

std::string unknown(const std::string& name) {
  std::string text = std::string(kMutationVariable) + ": no mutation is called '" + name + "'; use";
  for (const auto& [known, mutation] : names()) text += " " + known;
  return text;
}

}  // namespace

std::optional<Mutation> mutation_named(const std::string& name) {
  const auto found = names().find(name);
  if (found == names().end()) return std::nullopt;
  return found->second;
}

c10::intrusive_ptr<c10d::Backend> mutated(c10::intrusive_ptr<c10d::Backend> backend) {
  const char* name = std::getenv(kMutationVariable);
  if (name == nullptr || *name == '\0') return backend;
  const auto mutation = mutation_named(name);
  if (!mutation) throw std::invalid_argument(unknown(name));
  return mutated(std::move(backend), *mutation);
}

c10::intrusive_ptr<c10d::Backend> mutated(c10::intrusive_ptr<c10d::Backend> backend,
                                          Mutation mutation) {
  return c10::make_intrusive<MutatedBackend>(std::move(backend), mutation);
}

}  // namespace distrun
