// What stands behind `distrun launch`, split into flags, the program, and the program's own
// arguments.
//
//     auto line = split_command_line(launch_flags(), {"--nproc_per_node=2", "train.py", "--lr",
//     "1"},
//                                    environment);
//     line->find("nproc-per-node")->value       // "2"
//     line->program                             // {"train.py", "--lr", "1"}
//
// The rules are argparse's, by which torchrun reads the same line: `--name value`, `--name=value`,
// `-r3`, `-r 3`; dashes and underscores; the beginning of a name where it is that of one flag; a
// flag that is given twice has its last value; `--` may stand before the program.  A flag that is
// not given may have its value in PET_<NAME>, where one without a value takes a whole number, 0 for
// no.
//
// Where argparse (of Python 3.11) stumbles, this does not: what follows the program is never
// looked at, `--nproc` is not ambiguous for having two spellings, and `-mMODULE` is taken as
// Python itself takes it.  An empty variable counts as none.  Pure.
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
  std::string value;  // Empty for a flag that takes none.
  std::string said;   // Where it comes from: "--nproc-per-node", "PET_NPROC_PER_NODE".
};

struct CommandLine {
  std::map<std::string, GivenFlag, std::less<>> flags;  // By LaunchFlag::name.
  std::vector<std::string> program;                     // PROGRAM and its arguments; may be empty.

  // Null where it was not given.
  const GivenFlag* find(std::string_view name) const;
};

// Fails with kInvalidArgument for a flag that is not known (and names the one that was meant),
// that could be several, that lacks its value or has one too many.
Result<CommandLine> split_command_line(std::span<const LaunchFlag> flags,
                                       const std::vector<std::string>& arguments,
                                       const Environment& environment);

}  // namespace distrun
