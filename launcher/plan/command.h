// What a worker executes: the program as the user named it becomes a file to
// execute and its arguments.
//
//     auto command = resolve_command(options, environment);
//     if (!command) return command.error().with_context("launch");
//     // {"/usr/bin/python3", {"python3", "-u", "train.py", "--lr", "0.1"}}
//
// A `.py` file, and a module with -m, run with `python3 -u`, which the variable
// PYTHON_EXEC replaces, and so does any file under LaunchOptions::python; anything
// else is executed as it is.  Looks at the file system: a program that cannot run is an error
// before anything has been started.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/os/environment.h"
#include "distrun/result.h"
#include "launcher/plan/options.h"

namespace distrun {

struct Command {
  std::string executable;              // A path that exec() takes.
  std::vector<std::string> arguments;  // From argv[0] on.
};

// Fails with kNotFound or kNotExecutable, naming the program.
Result<Command> resolve_command(const LaunchOptions& options, const Environment& environment);

// A file that can be executed: `name` itself where it contains a slash, else the
// first on PATH.
Result<std::string> find_program(std::string_view name, const Environment& environment);

}  // namespace distrun
