// The folder of a run's log files: made, and left behind.
//
//     auto folder = make_log_folder(choice, "run-7", environment);
//     if (!folder) return folder.error();      // "make the folder /logs: permission denied; …"
//     *folder                                  // /logs/run-7_x3kQ2a
//
// Each run has a new one.  What is in it: log_choice.h.
#pragma once

#include <string>

#include "common/os/environment.h"
#include "common/os/unique_fd.h"
#include "distrun/result.h"
#include "launcher/plan/log_choice.h"

namespace distrun {

// Absolute, because a worker may change its folder.  Where the choice names none, it lies in a new
// one in TMPDIR.
Result<std::string> make_log_folder(const LogChoice& choice, const std::string& run_id,
                                    const Environment& environment);

// An empty file, for appending.
Result<UniqueFd> open_log_file(const std::string& path);

}  // namespace distrun
