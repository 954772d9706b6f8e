// The command line of distrun; no other folder reads argv or prints.
//
//     int main(int argc, char** argv) { return distrun::run(words, env, std::cout, std::cerr); }
//
// Under the name torchrun, such as through a link, distrun acts as `distrun launch`.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "common/os/environment.h"

namespace distrun {

// Runs one command and returns its exit status (docs/exit-codes.md). `words` is argv. Help and
// messages go to `out` and `err`, the workers' output to descriptors 1 and 2.
int run(const std::vector<std::string>& words, const Environment& environment, std::ostream& out,
        std::ostream& err);

}  // namespace distrun
