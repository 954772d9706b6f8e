#include "cli/run_choice.h"

#include <chrono>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/os/proc.h"
#include "common/text/parse_number.h"
#include "common/text/printable.h"
#include "launcher/control/run_client.h"
#include "launcher/outcome/run_end.h"

namespace distrun {

namespace {

constexpr int kExitNoRun = 4;
constexpr std::chrono::seconds kAboutTimeout{5};

// A run and its description of itself.
struct KnownRun {
  RunAddress address;
  std::string about;
};

// Other users' runs do not answer.
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

// Whether the process was started as `distrun test`.
bool runs_tests(pid_t pid) {
  const std::string words = proc_file(pid, "cmdline");
  const std::string_view program = words.c_str();  // Words end with a zero byte.
  return program.substr(program.rfind('/') + 1) == "distrun" &&
         words.substr(program.size()).starts_with(std::string_view("\0test\0", 6));
}

std::string listed(const std::vector<KnownRun>& runs) {
  std::string text;
  for (const KnownRun& run : runs) {
    text += fmt::format("\n  {}  {}", run.address.guard, printable(run.about, 200));
  }
  return text;
}

}  // namespace

Result<RunAddress> find_run(const std::string& given) {
  if (!given.empty()) {
    const auto pid = parse_number<pid_t>(given, 1);
    for (const RunAddress& run : runs_here()) {
      if (pid && (run.guard == *pid || run.launcher == *pid)) return run;
    }
    if (pid && runs_tests(*pid)) {
      return Error{ErrorKind::kNotFound,
                   fmt::format("{0} is a running distrun test, not a distrun launch; to see where "
                               "its ranks are: kill -USR1 {0}",
                               *pid)};
    }
  }
  const std::vector<KnownRun> runs = own_runs();
  if (given.empty() && runs.size() == 1) return runs.front().address;
  std::string message = "you have no running distrun launch on this machine";
  if (!given.empty()) message = given + " is not the process id of a running distrun launch";
  if (given.empty() && !runs.empty()) message = "you have several runs on this machine; choose one";
  if (!runs.empty()) message += (given.empty() ? ":" : "; your runs:") + listed(runs);
  return Error{ErrorKind::kNotFound, message};
}

int exit_status_of_run_error(const Error& error) {
  return error.kind == ErrorKind::kNotFound ? kExitNoRun : kExitInternal;
}

}  // namespace distrun
