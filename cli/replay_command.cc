#include "cli/replay_command.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <ostream>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "cli/flags.h"
#include "cli/recording_here.h"
#include "common/text/printable.h"
#include "common/text/shell_quote.h"
#include "common/text/utc_time.h"
#include "common/units.h"
#include "launcher/outcome/run_end.h"
#include "testsuites/harness/session/test_session.h"

namespace distrun {

namespace {

constexpr const char* kReplayHelp =
    R"(FILE is a file that --record of distrun launch or distrun test wrote, here or on another machine.
The command prints what that run printed: the same bytes, to the same streams, in the same order.

FILE is a zip file, so unzip can extract its reports: report.html, trace.json and others.

Exit status:
  0    the output was printed
  2    wrong usage, or FILE cannot be read, is not a recording, or is damaged
  4    --rerun-failed: nothing to run again
  125  the output cannot be written, or the command cannot run again
  N    with --exit-code: exit status of the recorded run
  N    with --rerun-failed: exit status of the new run

Examples:
  distrun test --record tests.zip
  distrun replay tests.zip
  distrun replay --info tests.zip
  distrun replay --rerun-failed tests.zip

Documentation: docs/recording.md)";

// A value of the file, which may be from anywhere, on one line.
std::string shown(std::string_view value) {
  constexpr std::size_t kBytesMax = 16 * kKiB;
  return printable(value, kBytesMax);
}

std::string command_text(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) {
    if (!text.empty()) text += ' ';
    text += shell_quoted(word);
  }
  return shown(text);
}

std::string info_text(const RecordingFacts& facts) {
  const auto took = std::chrono::duration<double>(facts.ended - facts.began).count();
  std::string text = fmt::format(
      "command  {}\nfolder   {}\nhost     {}\nbegan    {}\ntook     {:.1f} s\nstatus   {}\n"
      "distrun  {}\n",
      command_text(facts.command), shown(facts.folder), shown(facts.host), rfc3339(facts.began),
      took, facts.status, shown(facts.distrun));
  for (const std::string& id : facts.failed) text += "failed   " + shown(id) + '\n';
  return text;
}

}  // namespace

ReplayCommand::ReplayCommand(CLI::App& app)
    : command_(app.add_subcommand("replay", "Print the output of a recorded run again.")) {
  command_->formatter(std::make_shared<HelpFormatter>("distrun replay [flags] FILE"));
  own_flag(*command_, "info", info_,
           "Print which run FILE records, and the ids of its failed tests.");
  own_flag(*command_, "exit-code", exit_code_, "Exit with the status of the recorded run.");
  own_flag(
      *command_, "rerun-failed", rerun_,
      "Run again, from the current folder, what failed: of distrun test, the tests that failed "
      "or did not run; of distrun launch, the whole command. Flags that select tests or write "
      "reports are left out. Use this flag only with a FILE that you trust, because distrun "
      "executes the command in FILE.");
  add_help_flag(*command_);
  command_->footer(kReplayHelp);
  command_->add_option("FILE", file_)->group("");
}

void ReplayCommand::check(const Environment&) {
  if (file_.empty()) throw CLI::ParseError("a FILE is required", kExitUsage);
  if (info_ + exit_code_ + rerun_ > 1) {
    throw CLI::ParseError("--info, --exit-code and --rerun-failed exclude each other", kExitUsage);
  }
}

int ReplayCommand::run(const Environment&, std::ostream& out, std::ostream& err) {
  const auto recording = Recording::open(file_);
  if (!recording) {
    err << "distrun replay: " << recording.error().message << '\n';
    return kExitUsage;
  }
  if (rerun_) return rerun(*recording, out, err);
  return print(*recording, out, err);
}

int ReplayCommand::print(const Recording& recording, std::ostream& out, std::ostream& err) const {
  const auto to = [&](Printed stream, std::string_view bytes) -> Result<void> {
    std::ostream& into = stream == Printed::kStdout ? out : err;
    errno = 0;
    if (into << bytes << std::flush) return {};
    const auto name = stream == Printed::kStdout ? "write to stdout" : "write to stderr";
    return Error::from_errno(name, errno != 0 ? errno : EIO);
  };
  const auto done =
      info_ ? to(Printed::kStdout, info_text(recording.facts())) : recording.print(to);
  if (!done) {
    err << "distrun replay: " << done.error().message << '\n';
    return done.error().kind == ErrorKind::kInvalidArgument ? kExitUsage : kExitInternal;
  }
  return exit_code_ ? recording.facts().status : 0;
}

int ReplayCommand::rerun(const Recording& recording, std::ostream& out, std::ostream& err) {
  const RecordingFacts& facts = recording.facts();
  std::vector<std::string> words = rerun_words(facts);
  if (words.empty()) {
    const bool is_known = facts.status == 0 || facts.status == kExitNoTestRan;
    err << "distrun replay: "
        << (is_known ? "nothing failed in the recorded run"
                     : fmt::format("the recording names no failed test; the exit status of the run "
                                   "was {}",
                                   facts.status))
        << '\n';
    return kExitNoTestRan;
  }
  if (!facts.is_exact) {
    err << "distrun replay: the command has bytes that are not UTF-8, which FILE does not have\n";
    return kExitInternal;
  }
  // Variables of the environment would write reports too, even over FILE.
  for (const std::string_view flag : kReportFlags) {
    ::unsetenv(pet_variable(std::string(flag)).c_str());
  }
  err << "distrun replay: " << command_text(words) << '\n';
  out.flush();
  err.flush();
  std::vector<char*> arguments(words.size() + 1, nullptr);  // The last one stays null.
  std::transform(words.begin(), words.end(), arguments.begin(),
                 [](std::string& word) { return word.data(); });
  ::execv("/proc/self/exe", arguments.data());
  const int error = errno;
  err << "distrun replay: " << Error::from_errno("execute distrun", error).message;
  if (error == E2BIG) err << "; distrun replay --info lists the tests";
  err << '\n';
  return kExitInternal;
}

}  // namespace distrun
