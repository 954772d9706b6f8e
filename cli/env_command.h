// `distrun env`: prints how an engine, such as Slurm or mpirun, places `distrun launch`.
#pragma once

#include <CLI/App.hpp>

#include "cli/command.h"

namespace distrun {

class EnvCommand : public CliCommand {
 public:
  // Adds the command to `app`, which must outlive it.
  explicit EnvCommand(CLI::App& app);

  bool is_chosen() const override { return command_->parsed(); }
  void check(const Environment& /*environment*/) override {}
  int run(const Environment& environment, std::ostream& out, std::ostream& err) override;

 private:
  CLI::App* command_;
  bool explain_ = false;
};

}  // namespace distrun
