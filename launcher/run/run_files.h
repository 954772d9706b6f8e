// RunFiles are a run's own files: created before any process starts, removed after the run.
//
//     auto files = RunFiles::make(plan);
//     if (!files) return files.error();          // "make a folder …", "make the store file …"
//
// Guards and launcher each hold it: if the launcher is killed, a guard removes the files.
#pragma once

#include <optional>
#include <string>

#include "common/os/temporary_folder.h"
#include "distrun/result.h"
#include "launcher/plan/plan.h"
#include "launcher/run/store_file.h"

namespace distrun {

struct RunFiles {
  std::string folder;  // For error files and log files; kept if there are log files. Empty if there
                       // are neither.
  std::optional<TemporaryFolder> temporary;  // Set if `folder` is removed after the run.
  std::optional<StoreFile> store;            // Set under --store file:.

  static Result<RunFiles> make(const LaunchPlan& plan);
};

}  // namespace distrun
