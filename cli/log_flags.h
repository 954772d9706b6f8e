// The flags of `distrun launch` that route the workers' output.
//
//     log_flags.add_to(launch);
//     options.log = log_flags.choice(line, environment, workers);    // throws CLI::ValidationError
#pragma once

#include <string>

#include <CLI/App.hpp>

#include "cli/command_line.h"
#include "common/os/environment.h"
#include "launcher/plan/log_choice.h"

namespace distrun {

class LogFlags {
 public:
  void add_to(CLI::App& launch);

  // `workers` is their number on this node. Without --prefix, TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE
  // is the prefix of teed lines, as in torchrun.
  LogChoice choice(const CommandLine& line, const Environment& environment, int workers) const;

 private:
  std::string folder_, redirects_ = "0", tees_ = "0", shown_, out_filters_, err_filters_, prefix_;
  std::string tee_prefix_;
};

}  // namespace distrun
