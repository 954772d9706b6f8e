// `distrun stacks`: shows where the workers of a running `distrun launch` are.
#pragma once

#include <string>

#include <CLI/CLI.hpp>

#include "cli/command.h"

namespace distrun {

class StacksCommand : public CliCommand {
 public:
  // Adds the command to `app`, which must outlive it.
  explicit StacksCommand(CLI::App& app);

  bool is_chosen() const override { return command_->parsed(); }
  void check(const Environment& environment) override;
  int run(const Environment& environment, std::ostream& out, std::ostream& err) override;

 private:
  CLI::App* command_;
  std::string run_;  // Empty: the only run.
};

}  // namespace distrun
