// `distrun check [flags]`: a launch whose worker on each node is distrun itself, which examines the
// node (launcher/preflight).
#pragma once

#include <iosfwd>
#include <string>

#include <CLI/App.hpp>

#include "cli/launch_command.h"
#include "common/os/environment.h"

namespace distrun {

class CheckCommand : public LaunchCommand {
 public:
  // Adds the command to `app`, which must outlive it.
  explicit CheckCommand(CLI::App& app);
};

// The worker. Rank 0 prints the findings of all nodes. Returns the exit status.
int run_check_rank(const Environment& environment, const std::string& host, std::ostream& err);

}  // namespace distrun
