// A command of distrun: what follows its name on the command line, and what it does.
#pragma once

#include <iosfwd>

#include "common/os/environment.h"

namespace distrun {

class CliCommand {
 public:
  virtual ~CliCommand() = default;

  virtual bool is_chosen() const = 0;  // After parsing.

  // After parsing: throws CLI::ParseError for flags or arguments that are wrong.
  virtual void check(const Environment& environment) = 0;

  // Does it.  Returns the exit status.
  virtual int run(const Environment& environment, std::ostream& out, std::ostream& err) = 0;
};

}  // namespace distrun
