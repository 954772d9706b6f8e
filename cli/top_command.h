// `distrun top`: shows the workers of a running `distrun launch`, again and again.
#pragma once

#include <chrono>
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
  std::string run_;  // Empty: the only run.
  std::string interval_ = "1";
  std::chrono::milliseconds every_{1000};
  bool once_ = false;
};

}  // namespace distrun
