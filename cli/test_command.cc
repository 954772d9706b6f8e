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
    R"(NAME is a suite, SUITE.CLASS, or a test, SUITE.CLASS.TEST; without a name all tests run.
Each rank of a test is a process of its own.  A test passes if every rank passes and at least one
assertion ran.

Exit status: 0 all passed; 1 a test failed; 2 wrong usage; 4 no test ran; 125 distrun itself failed
or could not write results; 128 + the signal that ended it.

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
  return Error{ErrorKind::kNotFound,
               program.string() +
                   " does not exist; build distrun with LibTorch to get the suites, "
                   "or give a program of tests with --binary"};
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
    return Error{ErrorKind::kInvalidArgument, path + ": is a folder"};
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
    : command_(app.add_subcommand("test", "Run suites of distributed tests.")) {
  command_->formatter(std::make_shared<HelpFormatter>("distrun test [flags] [NAME]…"));
  command_->footer(kTestHelp);
  command_->add_option("name", options_.selection.names, "SUITE, SUITE.CLASS or SUITE.CLASS.TEST")
      ->group("");
  add_selection();
  add_ways_to_run();
  add_results();
}

void TestCommand::add_selection() {
  CLI::App& app = *command_;
  constexpr const char* kGroup = "Selection";
  add_flag(app, "keyword EXPRESSION", options_.selection.expression,
           "Tests whose id contains these words: 'a and not (b or c)'", "k")
      ->group(kGroup);
  add_flag(app, "shard I/N", shard_, "The Ith of N parts of the tests")->group(kGroup);
  add_flag(app, "failed", failed_, "Tests that failed or did not run, and have not passed since")
      ->group(kGroup);
  add_flag(app, "list", options_.list, "Print the ids and run nothing; with --json, as JSON")
      ->group(kGroup);
  app.add_option("--binary", binaries_,
                 "A program of tests instead of distrun-suites; may be repeated")
      ->type_name("PROGRAM")
      ->allow_extra_args(false)
      ->group(kGroup);
}

void TestCommand::add_ways_to_run() {
  CLI::App& app = *command_;
  constexpr const char* kGroup = "Run";
  add_flag(app, "jobs N", options_.plan.jobs,
           "Ranks at a time; 0: twice the cores, or the ranks of the largest test", "j")
      ->check(whole_number(0, kRanksMax))
      ->group(kGroup);
  add_flag(app, "timeout SECONDS", timeout_, "Time limit of a test that sets none")->group(kGroup);
  add_flag(app, "repeat N", options_.plan.repeat, "Run each test N times")
      ->check(whole_number(1, 1'000'000))
      ->group(kGroup);
  add_flag(app, "retries N", retries_,
           "Run a failed test again, up to N times; if it passes, it is flaky")
      ->check(whole_number(0, 1000))
      ->group(kGroup);
  add_flag(app, "fail-fast", options_.runner.fail_fast, "Start no more tests after a failure")
      ->group(kGroup);
  add_flag(app, "shuffle", options_.plan.shuffle, "Run in a random order, made from --seed")
      ->group(kGroup);
  seed_ = std::to_string(options_.plan.seed);
  add_flag(app, "seed N", seed_, "Seed of --shuffle and of every rank")->group(kGroup);
  add_flag(app, "nproc N", options_.plan.nproc,
           "Ranks of tests that allow a range; other tests are skipped")
      ->check(whole_number(0, kRanksMax))
      ->group(kGroup);
  add_flag(app, "backend NAME", options_.plan.backend,
           "Run this backend; tests that do not support it are skipped")
      ->group(kGroup);
  add_flag(app, "isolation HOW", isolation_,
           "fork: fork ranks from a process that has loaded LibTorch; exec: start fresh programs")
      ->check(one_of("fork", "exec"))
      ->group(kGroup);
  add_flag(app, "no-skips", options_.runner.no_skips, "Count a skipped test as a failure")
      ->group(kGroup);
  add_flag(app, "require-gpus N", required_gpus_, "Fail if there are fewer GPUs")
      ->check(whole_number(0, 4096))
      ->group(kGroup);
  // read() takes COMMAND out of the arguments before they are parsed.
  app.add_option("--rank-under", options_.runner.rank_under,
                 "Start rank R by COMMAND, on the terminal; last on the line")
      ->type_name("R COMMAND...")
      ->check(whole_number(0, kRanksMax - 1))
      ->group(kGroup);
}

void TestCommand::add_results() {
  CLI::App& app = *command_;
  constexpr const char* kGroup = "Results";
  json_flag_ = app.add_option("--json", options_.json,
                              "Write results to FILE; -: to stdout, and all other output to stderr")
                   ->type_name("FILE")
                   ->expected(0, 1)
                   ->group(kGroup);
  add_flag(app, "junit FILE", options_.junit, "Write results as JUnit XML")->group(kGroup);
  add_flag(app, "show-output", options_.console.show_output,
           "Show what ranks print, also of tests that pass")
      ->group(kGroup);
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
    refuse("json", "needs a FILE, except with --list");
  }
  if (options_.list && !json.empty()) {
    refuse("json",
           fmt::format("takes no file with --list; put the test name {} before --json", json));
  }
  if (options_.list && !junit.empty()) {
    refuse("junit", "cannot be combined with --list, which runs nothing");
  }
  for (std::string* path : {&json, &junit}) {
    if (*path == "-") *path = "/dev/stdout";
    if (is_stdout(*path)) stdout_has_results_ = true;
  }
  if (!json.empty() && !junit.empty() && are_same_file(json, junit)) {
    refuse("junit", junit + " is also the file of --json; give another");
  }
}

void TestCommand::check_rank_under() {
  if (!options_.runner.rank_under) return;
  if (options_.runner.under.empty())
    refuse("rank-under", "needs a rank and a command: --rank-under 1 gdb --args");
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
    err << fmt::format("distrun test: --require-gpus {}: {} are available\n", required_gpus_,
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
