// Creates the folder of a run's log files, which remains after the run.
//
//     auto folder = make_log_folder(choice, "run-7", environment);
//     if (!folder) return folder.error();      // "make the folder /logs: permission denied; …"
//     *folder                                  // /logs/run-7_x3kQ2a
//
// Each run has a new folder. log_choice.h describes its layout.
#pragma once

#include <string>

#include "common/os/environment.h"
#include "common/os/unique_fd.h"
#include "distrun/result.h"
#include "launcher/plan/log_choice.h"

namespace distrun {

// Returns an absolute path, because workers may change their folder. Without --log-dir, it is in
// TMPDIR.
Result<std::string> make_log_folder(const LogChoice& choice, const std::string& run_id,
                                    const Environment& environment);

// Opens an empty file for appending.
Result<UniqueFd> open_log_file(const std::string& path);

}  // namespace distrun
