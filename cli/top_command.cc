#include "cli/top_command.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <iostream>
#include <optional>
#include <sstream>
#include <thread>

#include <CLI/CLI.hpp>
#include <unistd.h>

#include "cli/flags.h"
#include "cli/run_choice.h"
#include "cli/screen.h"
#include "common/text/printable.h"
#include "common/text/text_cut.h"
#include "launcher/control/run_client.h"
#include "launcher/report/run_snapshot.h"

namespace distrun {

namespace {

constexpr std::chrono::seconds kSnapshotTimeout{5};

constexpr const char* kTopHelp =
    R"(RUN is the process id of distrun launch.  If you have exactly one run on this machine, you can omit
RUN.  The command ends when the run ends, or when you press Ctrl-C.  If the run has several nodes,
the command shows only the workers on this node.

Columns:
  time        how long the worker has run
  CPU         CPU use of the worker since the previous table, where 100% means one core
  memory      resident memory of the worker
  output      bytes per second that the worker wrote to stdout and stderr since the previous table
  processes   number of processes in the worker's session, including the worker
  collective  current or last collective of the worker, if distrun records collectives
  state       state of the worker

CPU, memory and state are those of the worker itself, without its child processes.

Exit status:
  0    success
  2    wrong usage
  4    RUN is not the process id of a running distrun launch
  4    RUN is omitted, and you do not have exactly one run on this machine
  125  the run does not answer, the run belongs to another user, or another error occurred

Examples:
  distrun top
  distrun top --once 4710

Documentation: docs/top.md)";

// Cuts each line to one row of the terminal.
std::string fitted(const std::string& table, int columns) {
  constexpr std::size_t kBytesMax = 4096;
  std::istringstream lines(table);
  std::string text;
  for (std::string line; std::getline(lines, line);) {
    line = printable(line, kBytesMax);
    text += (columns > 0 ? cut_to_columns(line, columns) : line) + '\n';
  }
  return text;
}

constexpr std::chrono::milliseconds kIntervalMin{100};

bool is_here(const RunAddress& run) {
  const auto runs = runs_here();
  return std::any_of(runs.begin(), runs.end(), [&](const RunAddress& other) {
    return other.guard == run.guard && other.launcher == run.launcher;
  });
}

}  // namespace

TopCommand::TopCommand(CLI::App& app) {
  command_ = app.add_subcommand(
      "top", "Show the CPU use, memory and output of each worker of a running distrun launch.");
  command_->formatter(std::make_shared<HelpFormatter>("distrun top [flags] [RUN]"));
  own_flag(*command_, "interval", interval_, "Time between two tables. The minimum is 0.1 seconds.")
      ->type_name("SECONDS");
  own_flag(*command_, "once", once_, "Measure for one interval, print one table, and exit.");
  add_help_flag(*command_);
  command_->footer(kTopHelp);
  command_->add_option("RUN", run_)->group("");
}

void TopCommand::check(const Environment&) {
  every_ = seconds_from("--interval", interval_, kIntervalMin);
}

int TopCommand::run(const Environment&, std::ostream& out, std::ostream& err) {
  const auto fail = [&err](const Error& error) {
    err << "distrun top: " << error.message << '\n';
    return exit_status_of_run_error(error);
  };
  const auto run = find_run(run_);
  if (!run) return fail(run.error());
  const bool updates = ::isatty(STDOUT_FILENO) != 0 && !once_;
  std::size_t lines = 0;  // Lines of the last table.
  const auto print = [&](const std::string& text, int columns) {
    errno = 0;
    const std::string table = fitted(text, columns);
    if (lines > 0) out << "\x1b[" << lines << "A\x1b[J";
    out << table << std::flush;
    if (updates) lines = static_cast<std::size_t>(std::count(table.begin(), table.end(), '\n'));
    return out.good();
  };
  std::optional<RunSnapshot> before;
  for (bool has_asked = false;; has_asked = true) {
    if (has_asked) std::this_thread::sleep_for(every_);
    const auto answer = ask_run(*run, "workers", kSnapshotTimeout);
    if (!answer && has_asked && !is_here(*run)) {  // The run has ended.
      if (once_ && before) print(top_table(*before, nullptr, before->workers.size()), 0);
      return 0;
    }
    const Screen screen = updates ? screen_of(STDOUT_FILENO) : Screen{};
    if (!answer && answer.error().kind == ErrorKind::kTimedOut && updates) {
      print(answer.error().message, screen.columns);
      before.reset();
      continue;
    }
    if (!answer) return fail(answer.error());
    auto now = parse_snapshot(*answer);
    if (!now) return fail(now.error());
    if (before || updates) {
      // Other rows: the command, the head, the number of omitted workers, and the cursor.
      const std::size_t workers = screen.rows == 0
                                      ? now->workers.size()
                                      : static_cast<std::size_t>(std::max(screen.rows - 4, 1));
      if (!print(top_table(*now, before ? &*before : nullptr, workers), screen.columns)) {
        return fail(Error::from_errno("write to stdout", errno != 0 ? errno : EIO));
      }
    }
    if (before && once_) return 0;
    before = std::move(*now);
  }
}

}  // namespace distrun
