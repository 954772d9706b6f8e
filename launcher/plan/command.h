// The executable and arguments of a worker, from the program that the user named.
//
//     auto command = resolve_command(options, environment);
//     if (!command) return command.error().with_context("launch");
//     // {"/usr/bin/python3", {"python3", "-u", "train.py", "--lr", "0.1"}}
//
// `.py` files, modules (-m), and any file under LaunchOptions::python run with `python3 -u`; the
// variable PYTHON_EXEC replaces `python3`. Reads the file system, so that a program that cannot run
// is an error before anything starts.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/os/environment.h"
#include "distrun/result.h"
#include "launcher/plan/options.h"

namespace distrun {

struct Command {
  std::string executable;
  std::vector<std::string> arguments;  // Including argv[0].
};

// Fails with kNotFound or kNotExecutable, naming the program.
Result<Command> resolve_command(const LaunchOptions& options, const Environment& environment);

// `name` itself if it contains a slash, else the first match on PATH.
Result<std::string> find_program(std::string_view name, const Environment& environment);

}  // namespace distrun
