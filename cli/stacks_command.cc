#include "cli/stacks_command.h"

#include <chrono>
#include <iostream>
#include <sstream>

#include "cli/flags.h"
#include "cli/run_choice.h"
#include "common/text/printable.h"
#include "launcher/control/run_client.h"

namespace distrun {

namespace {

constexpr std::chrono::seconds kAnswerTimeout{60};

constexpr const char* kStacksHelp =
    R"(RUN is the process id of distrun launch.  If you have exactly one run on this machine, you can omit
RUN.  The command does not stop the run.  If the run has several nodes, the command prints only the
call stacks of the workers on this node.

Exit status:
  0    success
  2    wrong usage
  4    RUN is not the process id of a running distrun launch
  4    RUN is omitted, and you do not have exactly one run on this machine
  125  the run does not answer, the run belongs to another user, or another error occurred

Examples:
  distrun stacks
  distrun stacks 4710

Documentation: docs/hangs.md)";

}  // namespace

StacksCommand::StacksCommand(CLI::App& app) {
  command_ = app.add_subcommand("stacks",
                                "Print the call stack of each worker of a running distrun launch.");
  command_->formatter(std::make_shared<HelpFormatter>("distrun stacks [RUN]"));
  add_help_flag(*command_);
  command_->footer(kStacksHelp);
  command_->add_option("RUN", run_)->group("");
}

void StacksCommand::check(const Environment&) {}

int StacksCommand::run(const Environment&, std::ostream& out, std::ostream& err) {
  const auto fail = [&err](const Error& error) {
    err << "distrun stacks: " << error.message << '\n';
    return exit_status_of_run_error(error);
  };
  const auto run = find_run(run_);
  if (!run) return fail(run.error());
  const auto text = ask_run(*run, "stacks", kAnswerTimeout);
  if (!text) return fail(text.error());
  // Names of functions and files, and answers of other users, may contain any bytes.
  std::istringstream lines(*text);
  for (std::string line; std::getline(lines, line);) out << printable(line, 4096) << '\n';
  out << std::flush;
  return 0;
}

}  // namespace distrun
