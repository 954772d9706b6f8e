// The flags by which `distrun test` runs on several nodes: those of `distrun launch`, with texts
// for tests. Unlike there, the variables PET_<FLAG> do not set them.
//
//     nodes_flags_.add_to(command);
//     …                                                     // Parses.
//     if (nodes_flags_.has_hosts()) … nodes_flags_.on_hosts(arguments, environment) …
//     options.nodes = nodes_flags_.place(environment);
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <CLI/App.hpp>

#include "cli/command_line.h"
#include "cli/engine_flags.h"
#include "cli/launch_options.h"
#include "common/os/environment.h"
#include "launcher/hosts/hosts_run.h"
#include "launcher/plan/options.h"
#include "testsuites/harness/session/test_nodes.h"

namespace distrun {

class TestNodesFlags {
 public:
  // For run_on_hosts().
  struct OnHosts {
    HostsRun run;
    LaunchOptions options;
  };

  // Adds the group "Nodes". `command` must outlive this object.
  void add_to(CLI::App& command);

  // After parsing.
  bool has_hosts() const;

  // From the flags, or else from the engine that started this process; nullopt on one node. Throws
  // CLI::ParseError, or SaidByTask0 if another task reports the error. REQUIRES: !has_hosts().
  std::optional<TestNodes> place(const Environment& environment);

  // After place(): false if another task of the engine reports errors that all tasks have.
  bool tells_errors() const;

  // `arguments`: those of distrun test on each host. Throws CLI::ParseError. REQUIRES: has_hosts().
  OnHosts on_hosts(const std::vector<std::string>& arguments, const Environment& environment);

 private:
  // The names of the flags, and where their values go.
  std::array<std::pair<std::string_view, std::string*>, 11> values();
  CommandLine given();

  CLI::App* command_ = nullptr;
  LaunchFlags flags_;
  PlacedByEngine placed_;
};

}  // namespace distrun
