// RunFiles is what a run keeps in files of its own while it goes on: made before anything is
// started, removed when the run is over.
//
//     auto files = RunFiles::make(plan);
//     if (!files) return files.error();          // "make a folder …", "make the store's file …"
//
// Guard and launcher both hold it: what a launcher that was killed could not remove, the guard
// removes.
#pragma once

#include <optional>
#include <string>

#include "common/os/temporary_folder.h"
#include "distrun/result.h"
#include "launcher/plan/plan.h"
#include "launcher/run/store_file.h"

namespace distrun {

struct RunFiles {
  std::string folder;  // Of error files, and of log files where some are kept: then it stays. Empty
                       // where there are to be none.
  std::optional<TemporaryFolder> temporary;  // `folder`, where it goes with the run.
  std::optional<StoreFile> store;            // Where the workers meet in a file.

  static Result<RunFiles> make(const LaunchPlan& plan);
};

}  // namespace distrun
