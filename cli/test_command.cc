#include "cli/test_command.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <ostream>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "cli/flags.h"
#include "cli/given_test_flags.h"
#include "cli/recorded_stream.h"
#include "cli/recording_here.h"
#include "cli/screen.h"
#include "common/os/host_name.h"
#include "common/os/result_file.h"
#include "common/os/temporary_folder.h"
#include "common/text/file_url.h"
#include "common/text/parse_number.h"
#include "common/text/text_cut.h"
#include "launcher/engines/ssh_hosts.h"
#include "launcher/hosts/hosts_run.h"
#include "launcher/outcome/run_end.h"
#include "launcher/plan/command.h"
#include "launcher/plan/several_nodes.h"
#include "launcher/plan/worker_count.h"
#include "testsuites/harness/protocol/rank_variables.h"
#include "testsuites/harness/session/leaked_process_lines.h"

namespace distrun {

namespace {

// Next to distrun itself, or where `cmake --install` installs it.
Result<std::string> find_suites() {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  const auto program = self / "distrun-suites";
  if (::access(program.c_str(), X_OK) == 0) return program.string();
  return Error{ErrorKind::kNotFound,
               "the program distrun-suites is not in " + self.string() +
                   "; build distrun with LibTorch, or give a test program with --binary"};
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
  const int columns = screen_of(fd).columns;
  return columns > 0 ? columns : 80;
}

int fail(const Error& error, std::ostream& err) {
  err << "distrun test: " << error.message << std::endl;
  return error.kind == ErrorKind::kInvalidArgument ? kExitUsage : kExitInternal;
}

[[noreturn]] void refuse(const std::string& flag, const std::string& why) {
  throw CLI::ValidationError("--" + flag, why);
}

[[noreturn]] void refuse_command(const std::string& why) {
  throw CLI::ParseError("--: " + why, kExitUsage);
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
  // The folder must be removed even if the reader is gone.
  ::signal(SIGPIPE, SIG_IGN);
  const auto lines = lines_about(guarded.left, WasInterrupted::kYes);
  err << "distrun test: the process that ran the tests was killed: " << describe(by)
      << (lines.empty() ? "; its tests were killed\n" : "\n");
  for (const std::string& line : lines) err << "distrun test: " << line << '\n';
}

}  // namespace

void TestCommand::read(std::vector<std::string>& arguments) {
  if (arguments.empty() || arguments.front() != "test") return;
  words_ = arguments;
  words_.insert(words_.begin(), "distrun");
  // A debugger's command may contain -- too.
  const auto dashes = std::find(arguments.begin(), arguments.end(), "--");
  const auto first = std::find(arguments.begin(), arguments.end(), "--rank-under");
  if (dashes < first) {
    after_dashes_.emplace(dashes + 1, arguments.end());
    arguments.erase(dashes, arguments.end());
  }
  const auto under = std::find(arguments.begin(), arguments.end(), "--rank-under");
  if (under == arguments.end() || arguments.end() - under < 3) return;
  options_.runner.under.assign(under + 2, arguments.end());
  arguments.erase(under + 2, arguments.end());
}

void TestCommand::check(const Environment& environment) {
  check_selection();
  check_after_dashes();
  check_result_files();
  check_rank_under();
  nodes_flags_.has_hosts() ? check_hosts(environment) : check_nodes(environment);
  options_.plan.timeout = some_seconds_from("--timeout", timeout_);
  options_.console.slow_after = some_seconds_from("--slow-after", slow_after_);
  const auto seed = parse_number<std::uint64_t>(seed_);
  if (!seed) refuse("seed", seed.error().message);
  options_.plan.seed = *seed;
  options_.runner.fresh = options_.plan.fresh = isolation_ == "exec";
  options_.plan.ignore_leaks = ignore_leaks_;
  options_.plan.no_skips = options_.runner.no_skips;
  options_.runner.attempts_max = 1 + retries_;
  options_.runner.keeps_order = options_.plan.shuffle;
  const Machine machine = this_machine(environment);
  options_.plan.cpus = std::max(machine.cpus, 1) * (options_.nodes ? options_.nodes->nodes : 1);
  options_.plan.gpus = machine.gpus;
  options_.plan.share_gpus = environment.get("DISTRUN_SHARE_GPUS") == "1";
}

void TestCommand::check_selection() {
  if (!shard_.empty()) {
    const auto shard = parse_shard(shard_);
    if (!shard) throw CLI::ParseError(shard.error().message, kExitUsage);
    options_.selection.shard = *shard;
  }
  options_.only_failed = failed_;
  options_.plan.binaries = binaries_;
  if (nodes_flags_.has_hosts()) return;  // This machine need not have them.
  for (const std::string& program : binaries_) {
    if (const auto fits = look_at_program(program); !fits) refuse("binary", fits.error().message);
  }
}

void TestCommand::check_after_dashes() {
  if (!after_dashes_) return;
  if (after_dashes_->empty()) refuse_command("needs a command, such as python3 test_mine.py");
  if (!binaries_.empty()) refuse_command("not with --binary; remove one of the two");
  options_.plan.command = *after_dashes_;
  is_python(*after_dashes_) ? check_python() : check_program();
}

void TestCommand::check_python() {
  const auto python = python_tests(*after_dashes_);
  if (!python) return refuse_command(python.error().message);
  const std::string& file = python->command[python->file];
  if (::access(file.c_str(), R_OK) != 0) refuse_command(Error::from_errno(file).message);
  std::error_code none;
  if (std::filesystem::is_directory(file, none)) refuse_command(file + " is a folder; give a file");
  python_ = *python;
}

void TestCommand::check_program() {
  if (!options_.plan.backend.empty()) {
    refuse("backend", "a program after -- chooses its own backend; remove --backend");
  }
  program_ = TestedProgram{.command = *after_dashes_};
  if (options_.plan.nproc > 0) program_->ranks = options_.plan.nproc;
}

void TestCommand::check_result_files() {
  std::string &json = options_.json, &junit = options_.junit, &html = options_.html,
              &trace = options_.trace;
  options_.list_as_json = json_flag_->count() > 0;
  if (options_.list && json == "-") json.clear();  // The results go there anyway.
  if (options_.list_as_json && json.empty() && !options_.list) {
    refuse("json", "needs a file name, except with --list");
  }
  if (options_.list && !json.empty()) {
    refuse("json",
           fmt::format("takes no file name with --list; to write the list to a file, redirect "
                       "stdout; if {0} is the name of a test, write it before --json",
                       json));
  }
  const std::pair<const char*, std::string*> files[] = {
      {"json", &json}, {"junit", &junit}, {"html", &html}, {"trace", &trace}, {"record", &record_}};
  for (const auto& [flag, path] : files) {
    if (path != &json && options_.list && !path->empty()) {
      refuse(flag, "cannot be combined with --list");
    }
  }
  for (const auto& [flag, path] : files) {
    const bool is_given = command_->count(std::string("--") + flag) > 0;
    if (path != &json && is_given && path->empty()) refuse(flag, "needs a file name");
  }
  if (record_ == "-" || is_stdout(record_)) refuse("record", "stdout has the output; give a file");
  for (const auto& [flag, path] : files) {
    if (*path == "-") *path = "/dev/stdout";
    if (is_stdout(*path)) stdout_has_results_ = true;
  }
  for (const auto& [flag, path] : files) {
    for (const auto& [other, its_path] : files) {
      if (other == flag) break;
      if (path->empty() || its_path->empty() || !are_same_file(*its_path, *path)) continue;
      refuse(flag, fmt::format("'{}' is also the file of --{}; give another one", *path, other));
    }
  }
}

void TestCommand::check_rank_under() {
  if (!options_.runner.rank_under) return;
  if (options_.runner.under.empty()) refuse("rank-under", "needs a command, such as gdb --args");
  options_.plan.jobs = 1;
  std::string& program = options_.runner.under.front();
  if (program.find('/') != program.npos) program = std::filesystem::absolute(program).string();
}

void TestCommand::check_nodes(const Environment& environment) {
  options_.nodes = nodes_flags_.place(environment);
  if (!options_.nodes) return;
  const auto several = check_several_nodes();
  if (!several && !nodes_flags_.tells_errors()) throw SaidByTask0{};
  if (!several) throw CLI::ParseError(several.error().message, kExitUsage);
  is_node_0_ = options_.nodes->node == 0;
  options_.nodes->command = command_of_nodes();
  if (options_.list) options_.nodes.reset();  // Node 0 lists as if it were alone.
  if (is_node_0_) return;
  // The nodes often see one file system.
  for (std::string* file :
       {&options_.json, &options_.junit, &options_.html, &options_.trace, &record_}) {
    file->clear();
  }
  stdout_has_results_ = false;
}

// The part of the command that must be the same on all nodes.
std::string TestCommand::command_of_nodes() const {
  std::string command = "distrun test";
  if (ignore_leaks_) command += " --ignore-leaks";
  if (binaries_.size() > 1) command += fmt::format(" with {} programs", binaries_.size());
  if (after_dashes_) command += fmt::format(" -- {}", fmt::join(*after_dashes_, " "));
  return shortened(command, kNodeNameBytesMax);
}

Result<void> TestCommand::check_several_nodes() const {
  if (options_.runner.rank_under) {
    return Error{ErrorKind::kInvalidArgument,
                 "--rank-under: is not supported on several nodes; start distrun test on one node"};
  }
  if (python_) {
    return Error{ErrorKind::kInvalidArgument,
                 "--: tests in Python are not supported on several nodes, because their ranks meet "
                 "in a file; start distrun test on one node"};
  }
  return {};
}

void TestCommand::check_hosts(const Environment& environment) {
  if (options_.runner.rank_under) {
    refuse("rank-under", "cannot be combined with --hosts; run the test on this machine");
  }
  auto flags = given_test_flags(*command_);
  for (GivenTestFlag& flag : flags) {  // In front of NAME, --json would take it as its file.
    if (flag.name == "json" && options_.list) flag.values = {"-"};
  }
  hosts_ = nodes_flags_.on_hosts(arguments_on_host(flags, options_.selection.names, after_dashes_),
                                 environment);
  const auto several = check_several_nodes();
  if (hosts_->run.hosts.size() > 1 && !several) {
    throw CLI::ParseError(several.error().message, kExitUsage);
  }
  if (!options_.list) return;
  hosts_->run.hosts.resize(1);  // Only node 0 lists.
  hosts_->run.orders.resize(1);
}

Result<void> TestCommand::complete(const Environment& environment) {
  options_.runner.programs = binaries_;
  if (after_dashes_) {
    std::string& program = python_ ? python_->command.front() : program_->command.front();
    auto found = find_program(program, environment);
    if (!found) return found.error();
    program = *found;
    options_.runner.programs = {fmt::format("{}", fmt::join(*after_dashes_, " "))};
    options_.runner.runs_program = program_.has_value();
  } else if (binaries_.empty()) {
    const auto suites = find_suites();
    if (!suites) return suites.error();
    options_.runner.programs = {*suites};
  }
  options_.runner.seed = options_.plan.seed;
  options_.runner.environment = environment;
  if (ignore_leaks_) options_.runner.environment.set(kTestIgnoreLeaksVariable, "1");
  remove_place(options_.runner.environment);
  if (is_node_0_) options_.history = history_file(environment, options_.runner.programs);
  options_.end_signals = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
  const int console = stdout_has_results_ ? STDERR_FILENO : STDOUT_FILENO;
  options_.console.terminal = is_node_0_ && ::isatty(console) != 0 &&
                              environment.get("TERM") != "dumb" && !options_.runner.rank_under;
  options_.console.colours = options_.console.terminal && !environment.get("NO_COLOR");
  options_.console.columns = columns_of_terminal(console);
  return {};
}

Result<std::vector<std::string>> TestCommand::host_of_command() {
  if (python_) return write_python_host(*python_, options_.runner.folder);
  return host_of(*program_);
}

int TestCommand::run_hosts(const Environment& environment, std::ostream& out, std::ostream& err) {
  if (binaries_.empty() && !after_dashes_) {  // The copy of distrun on a host has no suites.
    const auto suites = find_suites();
    if (!suites) return fail(suites.error(), err);
    for (HostOrder& order : hosts_->run.orders) {
      order.arguments.insert(order.arguments.begin(), "--binary=" + *suites);
    }
  }
  out.flush();
  err.flush();
  const auto status = run_on_hosts(hosts_->run, hosts_->options, environment);
  return status ? *status : fail(status.error(), err);
}

int TestCommand::run(const Environment& environment, std::ostream& out, std::ostream& err) {
  if (hosts_) return run_hosts(environment, out, err);
  if (options_.list && !is_node_0_) return 0;
  if (const auto completed = complete(environment); !completed) {
    return fail(completed.error(), err);
  }
  if (is_node_0_ && required_gpus_ > options_.plan.gpus) {
    err << fmt::format("distrun test: --require-gpus {}: this machine has {} GPU{}\n",
                       required_gpus_, options_.plan.gpus, options_.plan.gpus == 1 ? "" : "s");
    return kExitTestFailed;
  }
  if (!record_.empty()) {
    auto recording = RecordingWriter::open(record_);
    if (!recording) return fail(recording.error(), err);
    recording_.emplace(std::move(*recording));
  }
  auto folder = TemporaryFolder::make(environment);
  if (!folder) return fail(folder.error(), err);
  // The ranks of a test rendezvous in a file there.
  if (const auto url = file_url(folder->path()); !url) {
    return fail(url.error().with_context("set TMPDIR to another folder"), err);
  }
  options_.runner.folder = folder->path();
  if (after_dashes_) {
    auto host = host_of_command();
    if (!host) return fail(host.error(), err);
    options_.runner.command = std::move(*host);
  }
  if (options_.runner.rank_under) {  // Typed keys are for the debugger.
    for (const int signal : {SIGINT, SIGQUIT}) ::signal(signal, SIG_IGN);
  }

  const auto launcher = [&](const Result<GuardLifeline>& lifeline) {
    // The guard removes it too, because either process may be killed.
    const TemporaryFolder removed = std::move(*folder);
    return lifeline ? run_recorded(*lifeline, out, err) : fail(lifeline.error(), err);
  };
  std::vector<int> signals = options_.end_signals;
  signals.push_back(SIGUSR1);
  if (options_.console.terminal) signals.push_back(SIGWINCH);
  const auto status = run_guarded(signals, launcher, [&](const Guarded& guarded) {
    const auto* by = std::get_if<KilledBy>(&guarded.end);
    if (by == nullptr) return;
    const TemporaryFolder removed = std::move(*folder);  // The guard may have been killed too.
    tell_killed(guarded, *by, err);
  });
  return status ? *status : fail(status.error(), err);
}

std::function<void(const char*, const std::string&, std::string_view)> TestCommand::report_taker() {
  if (!recording_) return nullptr;
  return [this](const char* name, const std::string& path, std::string_view text) {
    recording_->add(name, text);
    if (is_stdout(path)) recording_->printed(Printed::kStdout, text);
  };
}

int TestCommand::run_recorded(const GuardLifeline& lifeline, std::ostream& out, std::ostream& err) {
  if (!recording_) return run_here(lifeline, out, err);
  // So a full disk or a reader of stdout that leaves does not end the tests.
  ::signal(SIGXFSZ, SIG_IGN);
  ::signal(SIGPIPE, SIG_IGN);
  RecordedStream recorded_out(out, Printed::kStdout, &*recording_);
  RecordedStream recorded_err(err, Printed::kStderr, &*recording_);
  const int status = run_here(lifeline, recorded_out.stream(), recorded_err.stream());
  const auto written = recording_->finish(recording_facts(status));
  return written ? status : fail(written.error().with_context("--record"), err);
}

RecordingFacts TestCommand::recording_facts(int status) const {
  RecordingFacts facts = facts_of_this_process();
  facts.command = words_;
  facts.is_of_tests = true;
  facts.failed = failed_ids_;
  facts.status = status;
  facts.rerun = {"distrun", "test"};
  for (const GivenTestFlag& flag : given_test_flags(*command_)) {
    const bool selects = flag.group == kTestSelection && flag.name != "binary";
    if (selects || writes_a_report(flag.name) || flag.name == "rank-under") continue;
    const auto words = words_of_flag(flag);
    facts.rerun.insert(facts.rerun.end(), words.begin(), words.end());
  }
  if (after_dashes_) {
    facts.rerun_tail = *after_dashes_;
    facts.rerun_tail.insert(facts.rerun_tail.begin(), "--");
  }
  return facts;
}

int TestCommand::run_here(const GuardLifeline& lifeline, std::ostream& out, std::ostream& err) {
  std::ostream& console = stdout_has_results_ ? err : out;
  int write_error = 0;
  const auto write = [&](std::string_view text) {
    if (!is_node_0_) return;
    errno = 0;
    if (console << text << std::flush) return;
    if (write_error == 0) write_error = errno != 0 ? errno : EIO;
    if (recording_) console.clear();  // The recording gets the rest.
  };
  const int fd = stdout_has_results_ ? STDERR_FILENO : STDOUT_FILENO;
  const TestSessionContext context{
      .lifeline = lifeline,
      .host = host_name(),
      .out = write,
      .err = [&](std::string_view text) { err << text << std::flush; },
      .columns = [fd] { return columns_of_terminal(fd); },
      .on_report = report_taker(),
      .on_end = [this](const std::vector<std::string>& failed) { failed_ids_ = failed; }};
  const auto end = run_test_session(options_, context);
  if (!end) return fail(end.error(), err);
  if (write_error == 0) return end->status;
  return fail(Error::from_errno("write to stdout", write_error), err);
}

}  // namespace distrun
