// Finds the run of `distrun launch` that the user means.
//
//     const auto run = find_run("4710");      // "": the only one on this machine
//     if (!run) …          // "you have several runs on this machine; choose one: …"
#pragma once

#include <string>

#include "distrun/result.h"
#include "launcher/control/run_address.h"

namespace distrun {

// `given` is the pid of the run's guard or launcher. Fails with kNotFound, and lists the runs that
// answer. For the pid of `distrun test`, says how to ask it.
Result<RunAddress> find_run(const std::string& given);

// For errors of find_run() and ask_run().
int exit_status_of_run_error(const Error& error);

}  // namespace distrun
