// A worker's error file, for the summary and for the launcher's own parent.
//
//     WorkerError error = read_worker_error(error_file(plan, place, worker));
//     hand_on_worker_error(error_file(plan, place, culprit), KilledBy{SIGSEGV}, plan.environment);
#pragma once

#include <string>

#include "common/os/environment.h"
#include "distrun/process_end.h"
#include "distrun/result.h"

namespace distrun {

struct WorkerError {
  std::string text;       // Empty if the file is missing or empty.
  std::string callstack;  // With demangled C++ names.
};

// Both texts are cut for the summary. For a malformed file, `text` says what is wrong.
WorkerError read_worker_error(const std::string& path);

// Copies the error file at `path` to TORCHELASTIC_ERROR_FILE of `environment`, for an outer
// launcher. `errorCode` becomes the worker's exit code, or minus its signal, as in torchrun. Does
// nothing without that variable or a valid file; fails if it cannot write.
Result<void> hand_on_worker_error(const std::string& path, const ProcessEnd& end,
                                  const Environment& environment);

}  // namespace distrun
