// `distrun top`: the workers of a running `distrun launch`, once a second.
#pragma once

#include <string>

#include <CLI/CLI.hpp>

#include "cli/command.h"

namespace distrun {

class TopCommand : public CliCommand {
 public:
  // Adds the command to `app`, which must outlive it.
  explicit TopCommand(CLI::App& app);

  bool is_chosen() const override { return command_->parsed(); }
  void check(const Environment& environment) override;
  int run(const Environment& environment, std::ostream& out, std::ostream& err) override;

 private:
  CLI::App* command_;
  std::string run_;  // Empty: the only one.
  double interval_s_ = 1;
  bool once_ = false;
};

}  // namespace distrun
