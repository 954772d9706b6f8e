#include "distrun/spawn_function.h"

#include <map>
#include <mutex>
#include <utility>

#include <c10/util/Exception.h>

#include "sharing/spawn/registered_function.h"

namespace distrun {

namespace {

struct Registry {
  std::mutex mutex;
  std::multimap<std::string, const SpawnFunction*> functions;
};

// Never freed: functions at namespace scope leave the registry at exit.
Registry& registry() {
  static Registry* const registry = new Registry();
  return *registry;
}

}  // namespace

SpawnFunction::SpawnFunction(std::string name, Function function)
    : name_(std::move(name)), function_(std::move(function)) {
  const std::lock_guard lock(registry().mutex);
  registry().functions.emplace(name_, this);
}

SpawnFunction::~SpawnFunction() {
  const std::lock_guard lock(registry().mutex);
  std::erase_if(registry().functions, [this](const auto& entry) { return entry.second == this; });
}

namespace internal {

const SpawnFunction& registered_function(const std::string& name) {
  const std::lock_guard lock(registry().mutex);
  const auto [begin, end] = registry().functions.equal_range(name);
  TORCH_CHECK_VALUE(begin != end, "no SpawnFunction is named '", name,
                    "' in this process: define it at namespace scope");
  TORCH_CHECK_VALUE(std::next(begin) == end, "several SpawnFunctions are named '", name,
                    "': give each a different name");
  return *begin->second;
}

}  // namespace internal
}  // namespace distrun
