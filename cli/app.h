// The command line of distrun: the only place that reads argv and prints.
//
//     int main(int argc, char** argv) { return distrun::run(args, env, std::cout, std::cerr); }
//
// Each command has a file of its own that turns its flags into options and calls
// the library below.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "common/environment.h"

namespace distrun {

// Runs one command to its end and returns distrun's exit status (docs/exit-codes.md).
// `arguments` are those behind the program's name.  What workers print goes to
// descriptors 1 and 2 of the process; help, messages and the summary to `out` and `err`.
int run(const std::vector<std::string>& arguments, const Environment& environment,
        std::ostream& out, std::ostream& err);

}  // namespace distrun
