// The command line of distrun: the only place that reads argv and prints.
//
//     int main(int argc, char** argv) { return distrun::run(words, env, std::cout, std::cerr); }
//
// Under the name torchrun, as by a link of that name, distrun is `distrun launch`.
//
// Each command has a file of its own that turns its flags into options and calls
// the library below.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "common/os/environment.h"

namespace distrun {

// Runs one command to its end and returns distrun's exit status (docs/exit-codes.md).
// `words` are all of argv, the program's name first.  What workers print goes to
// descriptors 1 and 2 of the process; help, messages and the summary to `out` and `err`.
int run(const std::vector<std::string>& words, const Environment& environment, std::ostream& out,
        std::ostream& err);

}  // namespace distrun
