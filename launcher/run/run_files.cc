#include "launcher/run/run_files.h"

#include <utility>

#include "launcher/run/log_folder.h"

namespace distrun {

Result<RunFiles> RunFiles::make(const LaunchPlan& plan) {
  RunFiles files;
  if (plan.options.log.keeps_files()) {
    auto folder = make_log_folder(plan.options.log, plan.options.run_id, plan.environment);
    if (!folder) return folder.error();
    files.folder = std::move(*folder);
  } else if (!plan.options.log.is_off()) {
    auto folder = TemporaryFolder::make(plan.environment);
    if (!folder) return folder.error();
    files.folder = folder->path();
    files.temporary.emplace(std::move(*folder));
  }
  if (plan.options.store.kind == StoreChoice::Kind::kFile) {
    auto store = StoreFile::make(plan.options.store.path);
    if (!store) return store.error();
    files.store.emplace(std::move(*store));
  }
  return files;
}

}  // namespace distrun
