#include "cli/test_command.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <ostream>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/flags.h"
#include "common/os/host_name.h"
#include "common/os/temporary_folder.h"
#include "common/text/file_url.h"
#include "common/text/parse_number.h"
#include "launcher/outcome/run_end.h"
#include "launcher/plan/worker_count.h"
#include "testsuites/harness/report/result_file.h"
#include "testsuites/harness/session/leaked_process_lines.h"

namespace distrun {

namespace {

constexpr const char* kTestHelp =
    R"(A test is a GoogleTest test that all its ranks run, each in a process of its own; it passes where
every rank passes, with at least one assertion made.  Its id is SUITE.CLASS.TEST: a part of it that
ends at a dot means all that begin so.  Without a name all tests are run.

Exit status: 0 all passed; 1 a test failed; 2 wrong usage; 4 no test ran; 125 distrun's own failure,
or results could not be written; 128 + a signal that ended it.

Examples:
  distrun test gloo
  distrun test gloo.ProcessGroupGlooTest -k 'allreduce and not stress' --repeat 20
  distrun test --failed --show-output
  distrun test --binary build/my_tests --junit results.xml
  distrun test gloo.CommTest.test_sum --rank-under 1 gdb --args)";

// Beside distrun itself, or where `cmake --install` puts it.
Result<std::string> find_suites() {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  const auto program = self / "distrun-suites";
  if (::access(program.c_str(), X_OK) == 0) return program.string();
  return Error{ErrorKind::kNotFound, "there is no " + program.string() +
                                         ", which has the suites: build distrun with LibTorch, or "
                                         "name a program of tests by --binary"};
}

std::string history_file(const Environment& environment, const std::vector<std::string>& programs) {
  std::filesystem::path folder = environment.get("XDG_CACHE_HOME").value_or("");
  if (folder.empty()) {
    const auto home = environment.get("HOME").value_or("");
    if (home.empty()) return "";
    folder = std::filesystem::path(home) / ".cache";
  }
  folder /= "distrun";
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return "";
  std::string all;
  for (const std::string& program : programs) {
    all += std::filesystem::weakly_canonical(program, error).string() + '\n';
  }
  return (folder / fmt::format("tests_{:016x}.json", std::hash<std::string>()(all))).string();
}

int columns_of_terminal(int fd) {
  winsize size{};
  return ::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

int fail(const Error& error, std::ostream& err) {
  err << "distrun test: " << error.message << std::endl;
  return error.kind == ErrorKind::kInvalidArgument ? kExitUsage : kExitInternal;
}

[[noreturn]] void refuse(const std::string& flag, const std::string& why) {
  throw CLI::ValidationError("--" + flag, why);
}

Result<void> look_at_program(const std::string& path) {
  std::error_code none;
  if (std::filesystem::is_directory(path, none)) {
    return Error{ErrorKind::kInvalidArgument, path + ": it is a folder"};
  }
  if (::access(path.c_str(), X_OK) != 0) return Error::from_errno(path);
  return {};
}

void tell_killed(const Guarded& guarded, const KilledBy& by, std::ostream& err) {
  // Who has stopped reading may be why; the folder is yet to be removed.
  ::signal(SIGPIPE, SIG_IGN);
  const auto lines = lines_about(guarded.left, WasInterrupted::kYes);
  err << "distrun test: it was killed: " << describe(by)
      << (lines.empty() ? "; what it ran has been ended\n" : "\n");
  for (const std::string& line : lines) err << "distrun test: " << line << '\n';
}

}  // namespace

TestCommand::TestCommand(CLI::App& app)
    : command_(app.add_subcommand("test", "Runs suites of distributed tests.")) {
  command_->formatter(std::make_shared<HelpFormatter>("distrun test [flags] [NAME]…"));
  command_->footer(kTestHelp);
  command_->add_option("name", options_.selection.names, "SUITE, SUITE.CLASS or SUITE.CLASS.TEST")
      ->type_name("");
  add_selection();
  add_ways_to_run();
  add_results();
}

void TestCommand::add_selection() {
  CLI::App& app = *command_;
  app.add_option("-k,--keyword", options_.selection.expression,
                 "only ids that hold these words: 'a and not (b or c)'");
  own_flag(app, "shard", shard_, "I/N: the Ith of N parts of the tests");
  own_flag(app, "failed", failed_,
           "only those that failed, or were not run, and have not passed since");
  own_flag(app, "list", options_.list, "print the ids and run nothing; with --json as JSON");
  app.add_option("--binary", binaries_,
                 "a program of tests instead of distrun-suites; may be repeated")
      ->allow_extra_args(false);
}

void TestCommand::add_ways_to_run() {
  CLI::App& app = *command_;
  own_flag(app, "jobs", options_.plan.jobs,
           "ranks at a time (0: twice the cores, or those of the largest test)", "j")
      ->check(CLI::Range(0, kRanksMax));
  own_flag(app, "timeout", timeout_, "seconds that a test may take, unless it has its own");
  own_flag(app, "repeat", options_.plan.repeat, "how often each test is run")
      ->check(CLI::Range(1, 1'000'000));
  own_flag(app, "retries", retries_, "how often a failed test is tried again; then it is flaky")
      ->check(CLI::Range(0, 1000));
  own_flag(app, "fail-fast", options_.runner.fail_fast, "start no more after a failure");
  own_flag(app, "shuffle", options_.plan.shuffle, "in an order made from --seed");
  seed_ = std::to_string(options_.plan.seed);
  own_flag(app, "seed", seed_, "of --shuffle, and of every rank")->type_name("UINT");
  own_flag(app, "nproc", options_.plan.nproc,
           "ranks of tests that have a range; skipped where it is outside")
      ->check(CLI::Range(0, kRanksMax));
  own_flag(app, "backend", options_.plan.backend,
           "run this one; tests that do not have it are skipped");
  own_flag(app, "isolation", isolation_,
           "fork: ranks are forks of a process that has loaded LibTorch; exec: fresh programs")
      ->check(CLI::IsMember({"fork", "exec"}));
  own_flag(app, "no-skips", options_.runner.no_skips, "a skip is a failure");
  own_flag(app, "require-gpus", required_gpus_, "fail where there are fewer")
      ->check(CLI::Range(0, 4096));
  // Is taken out of the arguments before they are parsed.
  app.add_option("--rank-under", options_.runner.rank_under,
                 "R COMMAND…, last: rank R is started by COMMAND, with the terminal")
      ->check(CLI::Range(0, kRanksMax - 1));
}

void TestCommand::add_results() {
  CLI::App& app = *command_;
  json_flag_ = app.add_option("--json", options_.json,
                              "write results to FILE; -: to stdout, all else goes to stderr then")
                   ->expected(0, 1);
  own_flag(app, "junit", options_.junit, "the same, as CI systems read them");
  own_flag(app, "show-output", options_.console.show_output,
           "what ranks print, also of tests that pass");
}

void TestCommand::read(std::vector<std::string>& arguments) {
  if (arguments.empty() || arguments.front() != "test") return;
  const auto under = std::find(arguments.begin(), arguments.end(), "--rank-under");
  if (under == arguments.end() || arguments.end() - under < 3) return;
  options_.runner.under.assign(under + 2, arguments.end());
  arguments.erase(under + 2, arguments.end());
}

void TestCommand::check(const Environment& environment) {
  check_selection();
  check_result_files();
  check_rank_under();
  options_.plan.timeout = some_seconds_from("--timeout", timeout_);
  const auto seed = parse_number<std::uint64_t>(seed_);
  if (!seed) refuse("seed", seed.error().message);
  options_.plan.seed = *seed;
  options_.runner.fresh = options_.plan.fresh = isolation_ == "exec";
  options_.runner.attempts_max = 1 + retries_;
  options_.runner.keeps_order = options_.plan.shuffle;
  const Machine machine = this_machine(environment);
  options_.plan.cpus = std::max(machine.cpus, 1);
  options_.plan.gpus = machine.gpus;
  options_.plan.share_gpus = environment.get("DISTRUN_SHARE_GPUS") == "1";
}

void TestCommand::check_selection() {
  if (!shard_.empty()) {
    const auto shard = parse_shard(shard_);
    if (!shard) refuse("shard", shard.error().message);
    options_.selection.shard = *shard;
  }
  options_.only_failed = failed_;
  for (const std::string& program : binaries_) {
    if (const auto fits = look_at_program(program); !fits) refuse("binary", fits.error().message);
  }
  options_.plan.binaries = binaries_;
}

void TestCommand::check_result_files() {
  std::string &json = options_.json, &junit = options_.junit;
  options_.list_as_json = json_flag_->count() > 0;
  if (options_.list && json == "-") json.clear();  // It goes there without.
  if (options_.list_as_json && json.empty() && !options_.list) {
    refuse("json", "name a file (with --list none is needed)");
  }
  if (options_.list && !json.empty()) {
    refuse("json",
           fmt::format("with --list it takes no file: is {} a test? Name it before --json", json));
  }
  if (options_.list && !junit.empty()) {
    refuse("junit", "with --list nothing is run: leave one of them out");
  }
  for (std::string* path : {&json, &junit}) {
    if (*path == "-") *path = "/dev/stdout";
    if (is_stdout(*path)) stdout_has_results_ = true;
  }
  if (!json.empty() && !junit.empty() && are_same_file(json, junit)) {
    refuse("junit", junit + " is the file of --json, too: name another one");
  }
}

void TestCommand::check_rank_under() {
  if (!options_.runner.rank_under) return;
  if (options_.runner.under.empty()) refuse("rank-under", "a command is to follow: gdb --args");
  options_.plan.jobs = 1;
  std::string& program = options_.runner.under.front();
  if (program.find('/') != program.npos) program = std::filesystem::absolute(program).string();
}

Result<void> TestCommand::complete(const Environment& environment) {
  options_.runner.programs = binaries_;
  if (binaries_.empty()) {
    const auto suites = find_suites();
    if (!suites) return suites.error();
    options_.runner.programs = {*suites};
  }
  options_.runner.seed = options_.plan.seed;
  options_.runner.environment = environment;
  options_.history = history_file(environment, options_.runner.programs);
  options_.end_signals = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
  const int console = stdout_has_results_ ? STDERR_FILENO : STDOUT_FILENO;
  options_.console.terminal =
      ::isatty(console) != 0 && environment.get("TERM") != "dumb" && !options_.runner.rank_under;
  options_.console.colours = options_.console.terminal && !environment.get("NO_COLOR");
  options_.console.columns = columns_of_terminal(console);
  return {};
}

int TestCommand::run(const Environment& environment, std::ostream& out, std::ostream& err) {
  if (const auto completed = complete(environment); !completed) {
    return fail(completed.error(), err);
  }
  if (required_gpus_ > options_.plan.gpus) {
    err << fmt::format("distrun test: --require-gpus {}: there are {}\n", required_gpus_,
                       options_.plan.gpus);
    return kExitTestFailed;
  }
  auto folder = TemporaryFolder::make(environment);
  if (!folder) return fail(folder.error(), err);
  // The ranks of a test meet in a file there.
  if (const auto url = file_url(folder->path()); !url) {
    return fail(url.error().with_context("set TMPDIR to another folder"), err);
  }
  options_.runner.folder = folder->path();
  if (options_.runner.rank_under) {  // What is typed is the debugger's.
    for (const int signal : {SIGINT, SIGQUIT}) ::signal(signal, SIG_IGN);
  }

  const auto launcher = [&](const Result<GuardLifeline>& lifeline) {
    // The guard removes it, too: either of the two may be killed.
    const TemporaryFolder removed = std::move(*folder);
    return lifeline ? run_here(*lifeline, out, err) : fail(lifeline.error(), err);
  };
  std::vector<int> signals = options_.end_signals;
  if (options_.console.terminal) signals.push_back(SIGWINCH);
  const auto status = run_guarded(signals, launcher, [&](const Guarded& guarded) {
    if (const auto* by = std::get_if<KilledBy>(&guarded.launcher)) tell_killed(guarded, *by, err);
  });
  return status ? *status : fail(status.error(), err);
}

int TestCommand::run_here(const GuardLifeline& lifeline, std::ostream& out, std::ostream& err) {
  std::ostream& console = stdout_has_results_ ? err : out;
  int write_error = 0;
  const auto write = [&](std::string_view text) {
    errno = 0;
    if (!(console << text << std::flush) && write_error == 0)
      write_error = errno != 0 ? errno : EIO;
  };
  const int fd = stdout_has_results_ ? STDERR_FILENO : STDOUT_FILENO;
  const TestSessionContext context{.lifeline = lifeline,
                                   .host = host_name(),
                                   .out = write,
                                   .err = [&](std::string_view text) { err << text << std::flush; },
                                   .columns = [fd] { return columns_of_terminal(fd); }};
  const auto end = run_test_session(options_, context);
  if (!end) return fail(end.error(), err);
  if (write_error == 0) return end->status;
  return fail(Error::from_errno("write to stdout", write_error), err);
}

}  // namespace distrun
