// ask_run() asks a run of `distrun launch` on this machine (run_server.h).
//
//     const auto text = ask_run(run, "stacks", std::chrono::seconds(30));
//     if (!text) return text.error();
//
// Blocks for `timeout` at most.
#pragma once

#include <chrono>
#include <string>

#include "distrun/result.h"
#include "launcher/control/run_address.h"

namespace distrun {

// Fails with kNotFound if the run has ended, kTimedOut if it does not answer, kProtocol if it does
// not know the question, and kSystem otherwise, such as for another user's run.
Result<std::string> ask_run(const RunAddress& run, const std::string& question,
                            std::chrono::milliseconds timeout);

}  // namespace distrun
