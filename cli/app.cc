#include "cli/app.h"

#include <algorithm>
#include <iostream>

#include <CLI/CLI.hpp>

#include "cli/flags.h"
#include "cli/launch_command.h"
#include "launcher/run_end.h"

namespace distrun {

namespace {

constexpr const char* kDescription =
    "distrun starts, connects and watches the processes of a distributed PyTorch program.";

constexpr const char* kExamples = R"(Examples:
  distrun launch --nproc-per-node 4 ./worker --lr 0.1
  distrun launch --nproc-per-node 4 train.py
  distrun launch --help)";

}  // namespace

int run(const std::vector<std::string>& arguments, const Environment& environment,
        std::ostream& out, std::ostream& err) {
  CLI::App app(kDescription, "distrun");
  app.formatter(std::make_shared<HelpFormatter>("distrun COMMAND [flags] …"));
  app.set_version_flag("--version", "distrun " DISTRUN_VERSION);
  app.footer(kExamples);
  app.require_subcommand(1);
  LaunchCommand launch(app);

  std::vector<std::string> reversed = launch.without_separator(arguments);
  std::reverse(reversed.begin(), reversed.end());  // As CLI11 takes them.
  try {
    app.parse(std::move(reversed));
    launch.check();
  } catch (const CLI::CallForHelp&) {
    const auto chosen = app.get_subcommands();
    out << (chosen.empty() ? app.help() : chosen.front()->help());
    return 0;
  } catch (const CLI::CallForVersion& version) {
    out << version.what() << '\n';
    return 0;
  } catch (const CLI::ParseError& error) {
    const auto chosen = app.get_subcommands();
    const std::string name = chosen.empty() ? "distrun" : "distrun " + chosen.front()->get_name();
    const bool unknown = chosen.empty() && !arguments.empty() && !arguments[0].starts_with('-');
    const std::string problem = unknown ? "there is no command " + arguments[0] : error.what();
    err << name << ": " << problem << '\n' << "Try '" << name << " --help'.\n";
    return kExitUsage;
  }
  return launch.run(environment, err);
}

}  // namespace distrun
