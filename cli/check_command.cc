#include "cli/check_command.h"

#include <ostream>

#include <CLI/CLI.hpp>

#include "cli/flags.h"
#include "launcher/outcome/run_end.h"
#include "launcher/preflight/check_rank.h"

namespace distrun {

namespace {

constexpr const char* kCheckName = "distrun check";

constexpr const char* kCheckHelp =
    R"(distrun check looks for problems of the nodes on which you want to run distrun launch: low limits,
full or missing folders, network problems, clocks that are not synchronized, and settings and
versions that differ between the nodes.  Give the flags that choose the nodes, or start distrun
check as you start distrun launch, for example with srun.  Each node needs a distrun check, except
with --hosts.  Node 0 prints one line for each problem of all nodes, or nothing.

Exit status:
  0      no problem was found
  1      a problem was found
  2      wrong usage
  128+N  distrun received signal N
  125    the check could not run; for example, a node did not join

Examples:
  distrun check
  srun distrun check
  distrun check --hosts gpu-1,gpu-2
  distrun check --nnodes 2 --node-rank 1 --master-addr gpu-0

Documentation: docs/check.md (each problem), docs/nodes.md, docs/exit-codes.md)";

}  // namespace

CheckCommand::CheckCommand(CLI::App& app)
    : LaunchCommand(*app.add_subcommand("check", "Check the nodes before a run."), kCheckName) {
  CLI::App& command = *app.get_subcommand("check");
  command.formatter(std::make_shared<HelpFormatter>("distrun check [flags]"));
  command.footer(kCheckHelp);
  command.get_option("--nnodes")
      ->description(
          "Number of nodes (machines) in the run. You must start distrun check on each node.");
  command.get_option("--hosts")->description(
      "Check other machines, over ssh. LIST contains names or addresses, separated by commas, such "
      "as gpu-1,gpu-2 or gpu[1-4]. The first host is node 0. Numbers of workers, as in gpu-1:8, "
      "have no effect.");
}

int run_check_rank(const Environment& environment, const std::string& host, std::ostream& err) {
  const auto findings = check_as_rank(environment, host);
  if (!findings) {
    err << kCheckName << ": " << findings.error().message << std::endl;
    return exit_status(findings.error());
  }
  for (const std::string& finding : *findings) err << kCheckName << ": " << finding << '\n';
  err.flush();
  return findings->empty() ? 0 : kExitFindings;
}

}  // namespace distrun
