// `distrun replay`: shows a recording again, or runs again what failed in it.
#pragma once

#include <string>

#include <CLI/CLI.hpp>

#include "cli/command.h"
#include "recording/recording.h"

namespace distrun {

class ReplayCommand : public CliCommand {
 public:
  // Adds the command to `app`, which must outlive it.
  explicit ReplayCommand(CLI::App& app);

  bool is_chosen() const override { return command_->parsed(); }
  void check(const Environment& environment) override;
  int run(const Environment& environment, std::ostream& out, std::ostream& err) override;

 private:
  int print(const Recording& recording, std::ostream& out, std::ostream& err) const;
  static int rerun(const Recording& recording, std::ostream& out, std::ostream& err);

  CLI::App* command_;
  std::string file_;
  bool info_ = false, exit_code_ = false, rerun_ = false;
};

}  // namespace distrun
