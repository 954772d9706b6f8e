// `distrun launch [flags] PROGRAM [ARGS…]`: turns flags into LaunchOptions, and these into a run.
#pragma once

#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include <CLI/App.hpp>

#include "cli/command.h"
#include "cli/command_line.h"
#include "cli/engine_flags.h"
#include "cli/launch_flags.h"
#include "cli/launch_options.h"
#include "launcher/hosts/hosts_run.h"
#include "launcher/plan/options.h"
#include "launcher/run/driver.h"
#include "recording/recording_facts.h"

namespace distrun {

// The user asked for a shell script instead of a run.
struct CompletionAsked {
  std::string script;
};

class LaunchCommand : public CliCommand {
 public:
  // Adds the command to `app`, which must outlive it. `name` is "distrun launch" or "torchrun". As
  // torchrun, PROGRAM is a Python script unless --no-python is given.
  LaunchCommand(CLI::App& app, const std::string& name, bool as_torchrun);

  // Rewrites `arguments` for CLI11: whole flag names, last values, without PROGRAM and its
  // arguments, which are kept for check(). Throws CLI::ParseError if split_command_line() fails.
  std::vector<std::string> read(std::vector<std::string> arguments, const Environment& environment);

  bool is_chosen() const override { return command_->parsed(); }
  void check(const Environment& environment) override;
  int run(const Environment& environment, std::ostream& out, std::ostream& err) override;

 protected:
  // For distrun check: `command` gets only the flags that choose the nodes, and the workers are
  // distrun itself. If they only found problems (kExitFindings), distrun prints no summary.
  LaunchCommand(CLI::App& command, const std::string& name);

 private:
  void bind_place();

  // In the launcher, the guard's child.
  Result<RunEnd> run_here(LaunchPlan& plan, RunFiles files, const LaunchContext& context) const;

  // With --hosts.
  void check_hosts(const Environment& environment);
  int run_hosts(const Environment& environment, std::ostream& out, std::ostream& err);

  RecordingFacts recording_facts(int status) const;

  CLI::App* command_;
  const std::string name_;
  std::vector<std::string> words_;  // The command as it was given.
  std::vector<LaunchFlag> known_flags_{launch_flags().begin(), launch_flags().end()};
  CommandLine line_;
  CommandLine given_;  // line_, without what an engine gave.
  PlacedByEngine placed_;
  LaunchFlags flags_;
  LaunchOptions options_;
  std::optional<HostsRun> hosts_;
};

}  // namespace distrun
