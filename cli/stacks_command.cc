#include "cli/stacks_command.h"

#include <chrono>
#include <iostream>
#include <sstream>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cli/flags.h"
#include "common/text/parse_number.h"
#include "common/text/printable.h"
#include "launcher/control/run_client.h"
#include "launcher/outcome/run_end.h"

namespace distrun {

namespace {

constexpr int kExitNoRun = 4;
constexpr std::chrono::seconds kAboutTimeout{5}, kAnswerTimeout{60};

constexpr const char* kStacksHelp =
    R"(RUN is the process id of distrun launch.  It can be omitted if only one run is on this machine.  The
run goes on.  With several nodes, run the command on each of them.

Exit status:
  0    success
  2    wrong usage
  4    there is no such run
  125  the run does not answer, or distrun itself failed

Examples:
  distrun stacks
  distrun stacks 4710

Documentation: docs/hangs.md)";

// A run, and what it says about itself.
struct KnownRun {
  RunAddress address;
  std::string about;
};

// Runs of other users do not answer.
std::vector<KnownRun> own_runs() {
  std::vector<KnownRun> runs;
  for (const RunAddress& run : runs_here()) {
    auto about = ask_run(run, "about", kAboutTimeout);
    if (about) {
      runs.push_back({run, std::move(*about)});
    } else if (about.error().kind == ErrorKind::kTimedOut) {
      runs.push_back({run, "(does not answer: it is suspended, or busy)"});
    }
  }
  return runs;
}

std::string listed(const std::vector<KnownRun>& runs) {
  std::string text;
  for (const KnownRun& run : runs) {
    text += fmt::format("\n  {}  {}", run.address.guard, printable(run.about, 200));
  }
  return text;
}

Result<RunAddress> find_run(const std::string& given) {
  if (!given.empty()) {
    const auto pid = parse_number<pid_t>(given, 1);
    for (const RunAddress& run : runs_here()) {
      if (pid && (run.guard == *pid || run.launcher == *pid)) return run;
    }
  }
  const std::vector<KnownRun> runs = own_runs();
  if (given.empty() && runs.size() == 1) return runs.front().address;
  std::string message = "no run of distrun launch is on this machine";
  if (!given.empty()) message = given + " is not the process id of a run of distrun launch";
  if (given.empty() && !runs.empty()) message = "several runs are on this machine; choose one";
  if (!runs.empty()) message += ":" + listed(runs);
  return Error{ErrorKind::kNotFound, message};
}

}  // namespace

StacksCommand::StacksCommand(CLI::App& app) {
  command_ = app.add_subcommand("stacks", "Print where the workers of a running launch are.");
  command_->formatter(std::make_shared<HelpFormatter>("distrun stacks [RUN]"));
  add_help_flag(*command_);
  command_->footer(kStacksHelp);
  command_->add_option("RUN", run_)->group("");
}

void StacksCommand::check(const Environment&) {}

int StacksCommand::run(const Environment&, std::ostream& out, std::ostream& err) {
  const auto fail = [&err](const Error& error) {
    err << "distrun stacks: " << error.message << '\n';
    return error.kind == ErrorKind::kNotFound ? kExitNoRun : kExitInternal;
  };
  const auto run = find_run(run_);
  if (!run) return fail(run.error());
  const auto text = ask_run(*run, "stacks", kAnswerTimeout);
  if (!text) return fail(text.error());
  // Names of functions and files, and the answers of other users, may hold anything.
  std::istringstream lines(*text);
  for (std::string line; std::getline(lines, line);) out << printable(line, 4096) << '\n';
  out << std::flush;
  return 0;
}

}  // namespace distrun
