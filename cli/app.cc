#include "cli/app.h"

#include <algorithm>
#include <array>
#include <iostream>

#include <CLI/CLI.hpp>

#include "cli/check_command.h"
#include "cli/env_command.h"
#include "cli/flags.h"
#include "cli/launch_command.h"
#include "cli/near_miss.h"
#include "cli/replay_command.h"
#include "cli/stacks_command.h"
#include "cli/store_client_commands.h"
#include "cli/store_serve_command.h"
#include "cli/test_command.h"
#include "cli/top_command.h"
#include "launcher/hosts/host_agent.h"
#include "launcher/hosts/remote_shell.h"
#include "launcher/outcome/run_end.h"
#include "launcher/preflight/check_rank.h"
#include "testsuites/harness/protocol/host_messages.h"
#include "testsuites/harness/session/tested_program.h"

namespace distrun {

namespace {

constexpr const char* kDescription =
    "distrun starts and watches distributed PyTorch programs, and runs distributed tests.";

constexpr const char* kHelpCommand = "help";  // Listed as a command; print_help() does it.

constexpr const char* kAppExamples = R"(Examples:
  distrun launch --nproc-per-node 4 ./worker --lr 0.1
  distrun launch --nproc-per-node 4 train.py
  distrun launch --help
  distrun test gloo
  distrun store status --store 127.0.0.1:29500

Documentation: man distrun; docs/README.md in the source)";

constexpr const char* kStoreExamples =
    R"(The store has the protocol of PyTorch's TCPStore, so programs can use the store through TCPStore.
All commands except serve and status also work with the server of PyTorch's TCPStore.

For all commands except serve, --store sets the address of the store.  Without --store, these
commands use the environment variable DISTRUN_STORE.  If DISTRUN_STORE is not set, they use
MASTER_ADDR and MASTER_PORT.  distrun launch sets these three variables in its workers.  distrun
launch has a flag --store too: with "distrun launch --store file:PATH", the store is a file, which
has no address, so the workers do not have these variables.

Exit status:
  0    success
  1    compare-set: after the command, the key does not have the new value
  2    wrong usage
  3    wait, get --wait or barrier timed out
  4    get, delete: the key does not exist
  125  the store cannot be reached, or another error occurred

Examples:
  distrun store serve --port 29500 &
  export DISTRUN_STORE=127.0.0.1:29500
  distrun store set ready/0 yes
  distrun store wait --timeout 30 ready/0
  distrun store status

Documentation: docs/store-protocol.md, docs/exit-codes.md, docs/errors.md)";

// The commands that were recognized: "distrun store get".
std::string command_name(const CLI::App& app) {
  std::string name = app.get_name();
  for (const CLI::App* at = &app; !at->get_subcommands().empty();) {
    at = at->get_subcommands().front();
    name += " " + at->get_name();
  }
  return name;
}

const CLI::App& innermost(const CLI::App& app) {
  const auto chosen = app.get_subcommands();
  return chosen.empty() ? app : innermost(*chosen.front());
}

// The message for the user, in our words instead of CLI11's.
std::string text_of(const CLI::ParseError& error, const CLI::App& app) {
  const CLI::App& command = innermost(app);
  const std::vector<std::string> extra = command.remaining();
  const bool takes_commands = !command.get_subcommands({}).empty();
  std::string what = error.what();
  const bool is_extra = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
  if (!extra.empty() && (takes_commands || is_extra)) {
    const auto flag = std::find_if(extra.begin(), extra.end(),
                                   [](const std::string& word) { return word.starts_with('-'); });
    if (takes_commands && flag != extra.begin()) return unknown_command(command, extra.front());
    if (flag != extra.end()) return unknown_flag(command, *flag);
    return "unexpected argument " + extra.front();
  }
  if (takes_commands && dynamic_cast<const CLI::RequiredError*>(&error) != nullptr)
    return "a command is required";
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) {
    const bool too_many = what.find(": At Most ") != what.npos;
    return what.substr(0, what.find(':')) +
           (too_many ? ": is given more than once" : ": needs a value");
  }
  return what;
}

// "distrun help store get".
int print_help(const CLI::App& app, const std::vector<std::string>& words, std::ostream& out,
               std::ostream& err) {
  const CLI::App* command = &app;
  for (const std::string& word : words) {
    const auto named =
        command->get_subcommands([&](const CLI::App* one) { return one->check_name(word); });
    if (named.empty()) {
      const bool has_commands = !command->get_subcommands({}).empty();
      err << "distrun help: "
          << (has_commands ? unknown_command(*command, word) : "unexpected argument " + word)
          << "\nTry 'distrun --help'.\n";
      return kExitUsage;
    }
    command = named.front();
  }
  out << command->help();
  return 0;
}

}  // namespace

int run(const std::vector<std::string>& words, const Environment& environment, std::ostream& out,
        std::ostream& err) {
  if (words.size() > 1 && words[1] == kProgramHostCommand && environment.get(kTestHostVariable)) {
    serve_tested_program({words.begin() + 2, words.end()});
  }
  if (words.size() == 2 && words[1] == kHostAgentCommand) return run_host_agent();
  if (words.size() == 3 && words[1] == kCheckRankCommand) {
    return run_check_rank(environment, words[2], err);
  }
  const bool as_torchrun =
      !words.empty() && words.front().substr(words.front().rfind('/') + 1) == "torchrun";
  std::vector<std::string> arguments(words.empty() ? words.begin() : words.begin() + 1,
                                     words.end());
  if (as_torchrun) arguments.insert(arguments.begin(), "launch");

  CLI::App app(kDescription, "distrun");
  app.formatter(std::make_shared<HelpFormatter>("distrun COMMAND [flags] ..."));
  app.set_version_flag("--version", "distrun " DISTRUN_VERSION, "Print the version and exit.");
  add_help_flag(app);
  app.footer(kAppExamples);
  app.require_subcommand(1);
  const std::string launch_name = as_torchrun ? "torchrun" : "distrun launch";
  LaunchCommand launch(app, launch_name, as_torchrun);

  CLI::App& store = *app.add_subcommand(
      "store", "Run or use a key-value store that works like PyTorch's TCPStore.");
  store.formatter(std::make_shared<HelpFormatter>("distrun store COMMAND [flags] ..."));
  store.footer(kStoreExamples);
  store.require_subcommand(1);
  StoreServeCommand serve(store);
  StoreClientCommands client(store);
  CheckCommand check(app);
  StacksCommand stacks(app);
  TopCommand top(app);
  TestCommand test(app);
  ReplayCommand replay(app);
  EnvCommand env(app);
  CLI::App& help = *app.add_subcommand(kHelpCommand, "Print the help of a command.");
  help.formatter(std::make_shared<HelpFormatter>("distrun help [COMMAND...]"));
  help.footer("Examples:\n  distrun help launch\n  distrun help store get");
  add_help_flag(help);

  for (CLI::App* parent : {&app, &store}) {
    for (CLI::App* command : parent->get_subcommands({})) command->group("Commands");
  }

  const auto commands = std::to_array<CliCommand*>(
      {&launch, &check, &serve, &client, &stacks, &top, &test, &replay, &env});
  const auto chosen = [&] {
    return *std::find_if(commands.begin(), commands.end(),
                         [](const CliCommand* command) { return command->is_chosen(); });
  };

  if (!as_torchrun && !arguments.empty() && arguments.front() == kHelpCommand) {
    arguments.erase(arguments.begin());
    if (!arguments.empty() && (arguments.front() == "-h" || arguments.front() == "--help")) {
      arguments.front() = kHelpCommand;
    }
    return print_help(app, arguments, out, err);
  }
  const auto wrong_usage = [&](const std::string& name, const std::string& problem) {
    err << name << ": " << problem << '\n' << "Try '" << name << " --help'.\n";
    return kExitUsage;
  };
  std::vector<std::string> reversed;
  try {
    test.read(arguments);
    reversed = check.read(launch.read(arguments, environment), environment);
  } catch (const CompletionAsked& asked) {
    out << asked.script;
    return 0;
  } catch (const CLI::ParseError& error) {
    const bool is_check = arguments.front() == "check";
    return wrong_usage(is_check ? "distrun check" : launch_name, error.what());
  }
  std::reverse(reversed.begin(), reversed.end());  // CLI11's order.
  const auto name = [&] { return as_torchrun ? launch_name : command_name(app); };
  try {
    app.parse(std::move(reversed));
    chosen()->check(environment);
  } catch (const SaidByTask0&) {
    return kExitUsage;
  } catch (const CLI::CallForHelp&) {
    out << innermost(app).help();
    return 0;
  } catch (const CLI::CallForVersion& version) {
    out << version.what() << '\n';
    return 0;
  } catch (const CLI::ParseError& error) {
    return wrong_usage(name(), text_of(error, app));
  }
  try {
    return chosen()->run(environment, out, err);
  } catch (const std::exception& error) {  // Asio's, or out of memory.
    err << name() << ": " << error.what() << '\n';
    return kExitInternal;
  }
}

}  // namespace distrun
