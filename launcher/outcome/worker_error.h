// What a worker has left in its error file, for the launcher's summary and for who started the
// launcher.
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
  std::string text;       // What went wrong; empty where there is no file, or an empty one.
  std::string callstack;  // Where; names of C++ as the source has them.
};

// Of both no more than a summary can use.  A file that cannot be understood is a text that says so.
WorkerError read_worker_error(const std::string& path);

// As torchrun does: the file at `path`, with how the worker ended as its `errorCode` (its exit
// code, or minus its signal), goes where TORCHELASTIC_ERROR_FILE of `environment` says, so that a
// launcher within another is told of like a worker.  Does nothing without that variable, or without
// a report that can be understood; fails where it cannot be written.
Result<void> hand_on_worker_error(const std::string& path, const ProcessEnd& end,
                                  const Environment& environment);

}  // namespace distrun
