// `distrun launch [flags] PROGRAM [ARGS…]`: flags become LaunchOptions, and these a run.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include <CLI/App.hpp>

#include "cli/command.h"
#include "cli/command_line.h"
#include "cli/launch_options.h"
#include "launcher/plan/options.h"
#include "launcher/run/driver.h"

namespace distrun {

class LaunchCommand : public CliCommand {
 public:
  // Adds the command to `app`, which must outlive it.  `name` is what the user has typed for it:
  // "distrun launch", or "torchrun", under which every PROGRAM is a Python script unless
  // --no-python says otherwise, as there.
  LaunchCommand(CLI::App& app, const std::string& name, bool as_torchrun);

  // `arguments` of distrun as CLI11 is to read them: the flags of this command each by its whole
  // name and with its last value, without PROGRAM and what follows it, which are kept for check().
  // Throws CLI::ParseError as split_command_line() fails.
  std::vector<std::string> read(std::vector<std::string> arguments, const Environment& environment);

  bool is_chosen() const override { return command_->parsed(); }
  void check(const Environment& environment) override;
  int run(const Environment& environment, std::ostream& out, std::ostream& err) override;

 private:
  // In the launcher, the guard's child.
  int run_here(LaunchPlan& plan, RunFiles files, const LaunchContext& context, std::ostream& err);

  CLI::App* command_;
  const std::string name_;
  CommandLine line_;
  LaunchFlags flags_;
  LaunchOptions options_;
};

}  // namespace distrun
