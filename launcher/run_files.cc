#include "launcher/run_files.h"

#include <utility>

namespace distrun {

Result<RunFiles> RunFiles::make(const LaunchPlan& plan) {
  auto folder = PrivateFolder::make(plan.environment);
  if (!folder) return folder.error();
  RunFiles files{std::move(*folder), std::nullopt};
  if (plan.options.store.kind == StoreChoice::Kind::kFile) {
    auto store = StoreFile::make(plan.options.store.path);
    if (!store) return store.error();
    files.store.emplace(std::move(*store));
  }
  return files;
}

}  // namespace distrun
