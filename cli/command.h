// A command of distrun.
#pragma once

#include <iosfwd>

#include "common/os/environment.h"

namespace distrun {

class CliCommand {
 public:
  virtual ~CliCommand() = default;

  virtual bool is_chosen() const = 0;  // After parsing.

  // Requires parsing. Throws CLI::ParseError for wrong flags or arguments.
  virtual void check(const Environment& environment) = 0;

  // Returns the exit status.
  virtual int run(const Environment& environment, std::ostream& out, std::ostream& err) = 0;
};

}  // namespace distrun
