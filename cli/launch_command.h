// `distrun launch [flags] PROGRAM [ARGS…]`: flags become LaunchOptions, and these a run.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include <CLI/App.hpp>

#include "common/environment.h"
#include "launcher/options.h"

namespace distrun {

class LaunchCommand {
 public:
  // Adds the command to `app`, which must outlive it.
  explicit LaunchCommand(CLI::App& app);

  // `arguments` of distrun without the "--" that may stand before PROGRAM, as under torchrun.
  std::vector<std::string> without_separator(std::vector<std::string> arguments) const;

  // After parsing: throws CLI::ParseError where the flags and what follows them make no sense.
  void check();

  // Runs what was asked for.  Returns the exit status.
  int run(const Environment& environment, std::ostream& err);

 private:
  CLI::App* command_;
  LaunchOptions options_;
  // Flags whose text needs a second look.
  std::string nnodes_ = "1", nproc_per_node_ = "1", master_port_ = "0", store_ = "tcp";
  std::string shutdown_timeout_ = "30", timeout_ = "0";  // Seconds.
  int max_restarts_ = 0;
  bool standalone_ = false;
};

}  // namespace distrun
