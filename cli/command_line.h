// Splits the command line of `distrun launch` into flags, PROGRAM, and PROGRAM's arguments.
//
//     auto line = split_command_line(launch_flags(), {"--nproc_per_node=2", "train.py", "--lr",
//     "1"},
//                                    environment);
//     line->find("nproc-per-node")->value       // "2"
//     line->program                             // {"train.py", "--lr", "1"}
//
// The rules are argparse's, as in torchrun: `--name value`, `--name=value`, `-r3`, `-r 3`;
// underscores for dashes; unique prefixes of names; the last value counts; `--` may precede
// PROGRAM. PET_<NAME> sets a flag that is not given; for a switch, it is a whole number, 0 for no.
//
// Unlike argparse (Python 3.11), it never interprets PROGRAM's arguments, accepts `--nproc`, reads
// `-mMODULE` like Python, and ignores empty variables. Pure.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/launch_flags.h"
#include "common/os/environment.h"
#include "distrun/result.h"

namespace distrun {

struct GivenFlag {
  std::string value;  // Empty if the flag takes none.
  std::string said;   // How it was given: "--nproc-per-node", "PET_NPROC_PER_NODE".
};

struct CommandLine {
  std::map<std::string, GivenFlag, std::less<>> flags;  // By LaunchFlag::name.
  std::vector<std::string> program;                     // PROGRAM and its arguments; may be empty.

  // Null if it was not given.
  const GivenFlag* find(std::string_view name) const;
};

// The flag that mpirun, srun and accelerate call `name`: "np" is "nproc-per-node". Empty if none.
std::string_view flag_of_other_launcher(std::string_view name);

// Fails with kInvalidArgument if a flag is unknown (and suggests one) or ambiguous, or lacks a
// value or has one too many.
Result<CommandLine> split_command_line(std::span<const LaunchFlag> flags,
                                       const std::vector<std::string>& arguments,
                                       const Environment& environment);

}  // namespace distrun
