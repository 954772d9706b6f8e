#include "cli/app.h"

#include <algorithm>
#include <array>
#include <iostream>

#include <CLI/CLI.hpp>

#include "cli/flags.h"
#include "cli/launch_command.h"
#include "cli/store_client_commands.h"
#include "cli/store_serve_command.h"
#include "cli/test_command.h"
#include "cli/usage_error.h"
#include "launcher/outcome/run_end.h"

namespace distrun {

namespace {

constexpr const char* kDescription =
    "distrun starts, connects, watches and tests the processes of a distributed PyTorch program.";

constexpr const char* kAppExamples = R"(Examples:
  distrun launch --nproc-per-node 4 ./worker --lr 0.1
  distrun launch --nproc-per-node 4 train.py
  distrun launch --help
  distrun test gloo
  distrun store status --store 127.0.0.1:29500)";

constexpr const char* kStoreExamples =
    R"(A store speaks the protocol of c10d's TCPStore: torch's clients connect to it, and the commands
here talk to torch's server too (all but status).  They find the store by --store HOST:PORT,
by DISTRUN_STORE, or by MASTER_ADDR and MASTER_PORT, as a worker of a run has them.

Exit status: 0; 1 compare-set has not set; 2 wrong usage; 3 time-out; 4 no such key;
125 the store cannot be reached, or another failure.

Examples:
  distrun store serve --port 29500 &
  export DISTRUN_STORE=127.0.0.1:29500
  distrun store set ready/0 yes
  distrun store wait --timeout 30 ready/0 ready/1
  distrun store status)";

}  // namespace

int run(const std::vector<std::string>& words, const Environment& environment, std::ostream& out,
        std::ostream& err) {
  const bool as_torchrun =
      !words.empty() && words.front().substr(words.front().rfind('/') + 1) == "torchrun";
  std::vector<std::string> arguments(words.empty() ? words.begin() : words.begin() + 1,
                                     words.end());
  if (as_torchrun) arguments.insert(arguments.begin(), "launch");

  CLI::App app(kDescription, "distrun");
  app.set_help_flag("-h,--help", "Show this help");
  app.formatter(std::make_shared<HelpFormatter>("distrun COMMAND [flags] …"));
  app.set_version_flag("--version", "distrun " DISTRUN_VERSION, "Show the version");
  app.footer(kAppExamples);
  app.require_subcommand(1);
  const std::string launch_name = as_torchrun ? "torchrun" : "distrun launch";
  LaunchCommand launch(app, launch_name, as_torchrun);

  CLI::App& store =
      *app.add_subcommand("store", "Run the store in which workers meet, and use it from scripts.");
  store.formatter(std::make_shared<HelpFormatter>("distrun store COMMAND [flags] …"));
  store.footer(kStoreExamples);
  store.require_subcommand(1);
  StoreServeCommand serve(store);
  StoreClientCommands client(store);
  TestCommand test(app);

  const auto commands = std::to_array<CliCommand*>({&launch, &serve, &client, &test});
  const auto chosen = [&] {
    return *std::find_if(commands.begin(), commands.end(),
                         [](const CliCommand* command) { return command->is_chosen(); });
  };

  const auto wrong_usage = [&](const std::string& name, const std::string& problem) {
    err << name << ": " << problem << '\n' << "Try '" << name << " --help'.\n";
    return kExitUsage;
  };
  std::vector<std::string> reversed;
  try {
    test.read(arguments);
    reversed = launch.read(arguments, environment);
  } catch (const CLI::ParseError& error) {
    return wrong_usage(launch_name, error.what());
  }
  std::reverse(reversed.begin(), reversed.end());  // As CLI11 takes them.
  const auto name = [&] { return as_torchrun ? launch_name : command_name(app); };
  try {
    app.parse(std::move(reversed));
    chosen()->check(environment);
  } catch (const CLI::CallForHelp&) {
    out << innermost_command(app).help();
    return 0;
  } catch (const CLI::CallForVersion& version) {
    out << version.what() << '\n';
    return 0;
  } catch (const CLI::ParseError& error) {
    return wrong_usage(name(), usage_problem(app, arguments, error));
  }
  try {
    return chosen()->run(environment, out, err);
  } catch (const std::exception& error) {  // Asio's, or out of memory.
    err << name() << ": " << error.what() << '\n';
    return kExitInternal;
  }
}

}  // namespace distrun
