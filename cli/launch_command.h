// `distrun launch [flags] PROGRAM [ARGS…]`: flags become LaunchOptions, and these a run.
#pragma once

#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/App.hpp>

#include "cli/command.h"
#include "cli/command_line.h"
#include "cli/log_flags.h"
#include "distrun/result.h"
#include "launcher/plan/options.h"
#include "launcher/plan/rendezvous.h"
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
  // Throws CLI::ValidationError, naming the flag or the variable that gave the value.
  [[noreturn]] void refuse(std::string_view name, const std::string& message) const;
  template <class Value>
  Value taken(std::string_view name, Result<Value> value) const;

  void take_program();
  void take_nodes();
  void take_store();
  void take_rendezvous();
  void take_nodes_rendezvous(const RendezvousFlags& flags);
  void take_log(const Environment& environment);
  void take_signals();
  void take_times(const Environment& environment);
  void check_what_is_not_used() const;

  // In the launcher, the guard's child.
  int run_here(LaunchPlan& plan, RunFiles files, const LaunchContext& context, std::ostream& err);

  CLI::App* command_;
  const std::string name_;
  const bool as_torchrun_;
  CommandLine line_;
  LaunchOptions options_;
  LogFlags log_flags_;
  bool dry_run_ = false, standalone_ = false, run_path_ = false;
  // Flags whose text needs a second look.
  std::string nproc_per_node_ = "1", nnodes_ = "1", node_rank_ = "0", max_restarts_ = "0";
  std::string rdzv_backend_ = "static", rdzv_endpoint_, rdzv_conf_;
  std::string local_addr_, master_addr_ = "127.0.0.1", master_port_ = "0", store_ = "tcp";
  std::string shutdown_timeout_ = "30", timeout_ = "0", monitor_interval_ = "0.1";  // Seconds.
  std::string signals_to_handle_ = "SIGTERM,SIGINT,SIGHUP,SIGQUIT", forward_signals_;
  std::string events_;  // A path; empty: none.
  std::string start_method_ = "spawn", event_log_handler_ = "null", logs_specs_, numa_binding_;
};

}  // namespace distrun
