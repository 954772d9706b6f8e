// `distrun launch [flags] PROGRAM [ARGS…]`: flags become LaunchOptions, and these a run.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include <CLI/App.hpp>

#include "cli/command.h"
#include "cli/log_flags.h"
#include "launcher/driver.h"
#include "launcher/options.h"

namespace distrun {

class LaunchCommand : public CliCommand {
 public:
  // Adds the command to `app`, which must outlive it.
  explicit LaunchCommand(CLI::App& app);

  // `arguments` of distrun without the "--" that may stand before PROGRAM, as under torchrun.
  std::vector<std::string> without_separator(std::vector<std::string> arguments) const;

  bool is_chosen() const override { return command_->parsed(); }
  void check(const Environment& environment) override;
  int run(const Environment& environment, std::ostream& out, std::ostream& err) override;

 private:
  // In the launcher, the guard's child.
  int run_here(LaunchPlan& plan, RunFiles files, const LaunchContext& context,
               std::ostream& err);

  CLI::App* command_;
  LaunchOptions options_;
  LogFlags log_flags_;
  // Flags whose text needs a second look.
  std::string nnodes_ = "1", nproc_per_node_ = "1", master_port_ = "0", store_ = "tcp";
  std::string shutdown_timeout_ = "30", timeout_ = "0";  // Seconds.
  std::string events_;                                   // A path; empty: none.
  std::string rdzv_conf_;
  int max_restarts_ = 0;
  bool standalone_ = false;
};

}  // namespace distrun
