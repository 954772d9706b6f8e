#include "cli/top_command.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <iostream>
#include <optional>
#include <sstream>
#include <thread>

#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/flags.h"
#include "cli/run_choice.h"
#include "common/text/printable.h"
#include "launcher/control/run_client.h"
#include "launcher/report/run_snapshot.h"

namespace distrun {

namespace {

constexpr std::chrono::seconds kSnapshotTimeout{60};

constexpr const char* kTopHelp =
    R"(RUN is the process id of distrun launch.  It can be omitted if only one run is on this machine.  The
command ends when the run does, or on Ctrl-C.  The run is not disturbed.  With several nodes, run
the command on each of them.

CPU and memory are those of the worker's own process: 100% is one core.  output is what the worker
has written to stdout and stderr.  processes counts the worker and what it has started.

Exit status:
  0    success
  2    wrong usage
  4    there is no such run
  125  the run does not answer, or distrun itself failed

Examples:
  distrun top
  distrun top --once 4710

Documentation: docs/top.md)";

struct Screen {
  std::size_t rows = 0, columns = 0;  // 0: no terminal.
};

Screen screen_of(int fd) {
  winsize size{};
  if (::ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_row == 0) return {};
  return {size.ws_row, size.ws_col};
}

// Each line at most as wide as the terminal, so that the number of lines is known.
std::string fitted(const std::string& table, std::size_t columns) {
  std::istringstream lines(table);
  std::string text;
  for (std::string line; std::getline(lines, line);) {
    text += printable(line, columns == 0 ? 4096 : columns) + '\n';
  }
  return text;
}

}  // namespace

TopCommand::TopCommand(CLI::App& app) {
  command_ = app.add_subcommand("top", "Watch the CPU, memory and output of a running launch.");
  command_->formatter(std::make_shared<HelpFormatter>("distrun top [flags] [RUN]"));
  own_flag(*command_, "interval", interval_s_, "Time between two looks.")
      ->type_name("SECONDS")
      ->check(CLI::Range(0.1, 3600.0));
  own_flag(*command_, "once", once_, "Look twice, print one table, and exit.");
  add_help_flag(*command_);
  command_->footer(kTopHelp);
  command_->add_option("RUN", run_)->group("");
}

void TopCommand::check(const Environment&) {}

int TopCommand::run(const Environment&, std::ostream& out, std::ostream& err) {
  const auto fail = [&err](const Error& error) {
    err << "distrun top: " << error.message << '\n';
    return exit_status_of_run_error(error);
  };
  const auto run = find_run(run_);
  if (!run) return fail(run.error());
  const bool updates = ::isatty(STDOUT_FILENO) != 0 && !once_;
  std::optional<RunSnapshot> before;
  for (std::size_t lines = 0;;) {
    const auto answer = ask_run(*run, "workers", kSnapshotTimeout);
    if (!answer) {
      if (before && answer.error().kind == ErrorKind::kNotFound) return 0;  // The run has ended.
      return fail(answer.error());
    }
    auto now = parse_snapshot(*answer);
    if (!now) return fail(now.error());
    if (before || updates) {
      const Screen screen = updates ? screen_of(STDOUT_FILENO) : Screen{};
      const std::size_t workers =
          screen.rows == 0 ? now->workers.size() : std::max<std::size_t>(screen.rows, 5) - 4;
      const std::string table =
          fitted(top_table(*now, before ? &*before : nullptr, workers), screen.columns);
      errno = 0;
      // Over the table before.
      if (lines > 0) out << "\x1b[" << lines << "A\x1b[J";
      out << table << std::flush;
      if (!out) return fail(Error::from_errno("write to stdout", errno != 0 ? errno : EIO));
      if (updates) lines = static_cast<std::size_t>(std::count(table.begin(), table.end(), '\n'));
    }
    if (before && once_) return 0;
    before = std::move(*now);
    std::this_thread::sleep_for(std::chrono::duration<double>(interval_s_));
  }
}

}  // namespace distrun
