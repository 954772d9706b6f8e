#include "cli/launch_command.h"

#include <iostream>
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <unistd.h>

#include "cli/check_first.h"
#include "cli/completion_scripts.h"
#include "cli/flags.h"
#include "cli/hosts_launch.h"
#include "cli/hosts_orders.h"
#include "cli/launch_reports.h"
#include "cli/random_run_id.h"
#include "cli/recorded_stream.h"
#include "cli/recording_here.h"
#include "cli/termination_log.h"
#include "common/os/host_name.h"
#include "distrun/process_end.h"
#include "launcher/outcome/run_end.h"
#include "launcher/plan/command.h"
#include "launcher/plan/plan.h"
#include "launcher/plan/worker_count.h"
#include "launcher/preflight/check_rank.h"
#include "launcher/process/guard.h"
#include "launcher/report/dry_run.h"
#include "launcher/report/summary.h"
#include "launcher/run/driver.h"
#include "launcher/run/run_files.h"

namespace distrun {

namespace {

// {0}: the command's name; {1}: what PROGRAM is.
constexpr const char* kLaunchHelp =
    R"({1}

When distrun receives SIGUSR1, distrun prints the state and the call stack of each worker.  If
--signals-to-handle or --forward-signals lists SIGUSR1, distrun does what that flag says instead.

Defaults are shown in brackets.  An environment variable can set a flag that is not on the command
line: PET_NNODES=2 means --nnodes 2.  You can shorten a flag if no other flag begins with the same
letters.  If a shortened flag fits only one flag of torchrun, distrun uses that flag: --t means
--tee, although distrun's own flag --timeout also begins with --t.

Exit status:
  0      every worker exited with 0; after a restart, only the restarted workers count
  N      the first worker that failed exited with N
  128+N  signal N killed the first worker that failed
  128+N  distrun received signal N and stopped the run
  2      wrong usage; no worker was started
  75     no worker made progress for the time that --hang-after sets
  124    the run took longer than --timeout
  125    distrun could not start or continue the run
  126    PROGRAM cannot be executed
  127    PROGRAM was not found
  141    the program that reads distrun's output exited, as in "distrun launch ... | head"

Examples:
  {0} --nproc-per-node 4 train.py --epochs 3
  {0} --nproc-per-node 4 --hang-after 600 -m my_package.train
  {0} --nproc-per-node 2 --no-python sh -c 'echo rank $RANK of $WORLD_SIZE'
  {0} --hosts gpu-1:8,gpu-2:8 train.py
  {0} --nproc-per-node 2 --dry-run train.py

Documentation: docs/torchrun.md (each flag), docs/nodes.md, docs/ssh.md, docs/engines.md,
docs/kubernetes.md, docs/errors.md, docs/exit-codes.md)";

constexpr const char* kProgram =
    R"(distrun runs PROGRAM with python3 -u if PROGRAM ends with .py, or if you give -m or --run-path.
Otherwise, or if you give --no-python, distrun executes PROGRAM directly.  To use another Python,
set PYTHON_EXEC to the path of that Python.)";
constexpr const char* kTorchrunsProgram =
    R"(distrun runs PROGRAM with python3 -u.  With --no-python, distrun executes PROGRAM directly.  To use
another Python, set PYTHON_EXEC to the path of that Python.)";

// The script is for the command `torchrun` if distrun has that name.
std::string completion_script(const GivenFlag& flag, bool as_torchrun) {
  const bool bash = flag.value == "bash";
  if (!bash && flag.value != "zsh") {
    throw CLI::ValidationError(flag.said, "'" + flag.value + "' is neither bash nor zsh");
  }
  std::string script = bash ? kBashCompletion : kZshCompletion;
  if (!as_torchrun) return script;
  const std::string end = bash ? "complete -F _distrun " : "#compdef ", own = "distrun\n";
  return script.replace(script.find(end + own) + end.size(), own.size(), "torchrun\n");
}

// distrun sets OMP_NUM_THREADS if several ranks are on a node; a check must see the user's value.
Environment without_own_default(Environment environment) {
  environment.set_default("OMP_NUM_THREADS", "");
  return environment;
}

// distrun itself; also if its file was replaced meanwhile.
Command check_rank_command(const std::string& host) {
  return {"/proc/self/exe", {"distrun", kCheckRankCommand, host}};
}

// Stdin of local rank 0, or -1: a background job must not read the terminal.
int input_of_workers() {
  const bool background = ::isatty(STDIN_FILENO) != 0 && ::tcgetpgrp(STDIN_FILENO) != ::getpgrp();
  return background ? -1 : STDIN_FILENO;
}

std::vector<int> signals_of(const LaunchOptions& options) {
  std::vector<int> signals = options.end_signals;
  signals.insert(signals.end(), options.forward_signals.begin(), options.forward_signals.end());
  signals.push_back(SIGUSR1);
  return signals;
}

std::string launcher_killed(const Guarded& guarded, const KilledBy& by) {
  std::string text = fmt::format("distrun: the {} (pid {}) was killed: {}\n", guarded.name,
                                 guarded.pid, describe(by));
  if (!guarded.left.survivors.empty()) {
    text += fmt::format("  {} of its processes are stuck in the kernel and still exist\n",
                        guarded.left.survivors.size());
  } else {
    text += "  every process of the run was killed\n";
  }
  return text;
}

}  // namespace

LaunchCommand::LaunchCommand(CLI::App& app, const std::string& name, bool as_torchrun)
    : command_(app.add_subcommand(
          "launch", "Start workers, print their output, and stop all workers if one fails.")),
      name_(name) {
  flags_.as_torchrun = as_torchrun;
  command_->formatter(std::make_shared<HelpFormatter>(name + " [flags] PROGRAM [ARGS...]"));
  command_->footer(
      fmt::format(fmt::runtime(kLaunchHelp), name, as_torchrun ? kTorchrunsProgram : kProgram));
  bind_flag(*command_, "nproc-per-node", flags_.nproc_per_node);
  bind_flag(*command_, "module", flags_.module);
  bind_flag(*command_, "no-python", flags_.no_python);
  bind_flag(*command_, "run-path", flags_.run_path);
  bind_flag(*command_, "virtual-local-rank", flags_.virtual_local_rank);
  bind_flag(*command_, "numa-binding", flags_.numa_binding);
  bind_flag(*command_, "role", flags_.role);
  bind_flag(*command_, "dry-run", flags_.dry_run);
  bind_place();
  bind_flag(*command_, "check", flags_.check);
  bind_flag(*command_, "display-map", flags_.display_map);
  bind_flag(*command_, "standalone", flags_.standalone);
  bind_flag(*command_, "store", flags_.store);
  bind_flag(*command_, "same-user", flags_.same_user);
  bind_flag(*command_, "max-restarts", flags_.max_restarts);
  bind_flag(*command_, "timeout", flags_.timeout);
  bind_flag(*command_, "hang-after", flags_.hang_after);
  bind_flag(*command_, "collectives", flags_.collectives);
  bind_flag(*command_, "digest", flags_.digest);
  bind_flag(*command_, "save-digests", flags_.save_digests);
  bind_flag(*command_, "compare-digests", flags_.compare_digests);
  bind_flag(*command_, "shutdown-timeout", flags_.shutdown_timeout);
  bind_flag(*command_, "heartbeat", flags_.heartbeat);
  bind_flag(*command_, "signals-to-handle", flags_.signals_to_handle);
  bind_flag(*command_, "forward-signals", flags_.forward_signals);
  flags_.log.add_to(*command_);
  bind_flag(*command_, "termination-log", flags_.termination_log);
  bind_flag(*command_, "html", flags_.html);
  bind_flag(*command_, "events", flags_.events);
  bind_flag(*command_, "trace", flags_.trace);
  bind_flag(*command_, "record", flags_.record);
  bind_flag(*command_, "metrics-port", flags_.metrics_port);
  bind_flag(*command_, "metrics-host", flags_.metrics_host);
  bind_flag(*command_, "rdzv-backend", flags_.rdzv_backend);
  bind_flag(*command_, "start-method", flags_.start_method);
  bind_flag(*command_, "monitor-interval", flags_.monitor_interval);
  bind_flag(*command_, "event-log-handler", flags_.event_log_handler);
  bind_flag(*command_, "logs-specs", flags_.logs_specs);
  bind_flag(*command_, "print-completion", flags_.print_completion);
  add_help_flag(*command_, "Help");
}

LaunchCommand::LaunchCommand(CLI::App& command, const std::string& name)
    : command_(&command), name_(name) {
  flags_.as_check = true;
  bind_place();
  bind_flag(*command_, "standalone", flags_.standalone);
  bind_flag(*command_, "heartbeat", flags_.heartbeat);
  bind_flag(*command_, "rdzv-backend", flags_.rdzv_backend);
  add_help_flag(*command_, "Help");
  known_flags_ = flags_of_check();
}

void LaunchCommand::bind_place() {
  bind_flag(*command_, "nnodes", flags_.nnodes);
  bind_flag(*command_, "node-rank", flags_.node_rank);
  bind_flag(*command_, "master-addr", flags_.master_addr);
  bind_flag(*command_, "master-port", flags_.master_port);
  bind_flag(*command_, "rdzv-endpoint", flags_.rdzv_endpoint);
  bind_flag(*command_, "rdzv-conf", flags_.rdzv_conf);
  bind_flag(*command_, "rdzv-id", flags_.run_id);
  bind_flag(*command_, "local-addr", flags_.local_addr);
  bind_flag(*command_, "hosts", flags_.hosts);
  bind_flag(*command_, "ssh", flags_.ssh);
  bind_flag(*command_, "pass-env", flags_.pass_env);
}

std::vector<std::string> LaunchCommand::read(std::vector<std::string> arguments,
                                             const Environment& environment) {
  if (arguments.empty() || arguments.front() != command_->get_name()) return arguments;
  words_ = arguments;
  if (flags_.as_torchrun) {
    words_.front() = name_;
  } else {
    words_.insert(words_.begin(), "distrun");
  }
  arguments.erase(arguments.begin());
  auto line = split_command_line(known_flags_, arguments, environment);
  if (!line) throw CLI::ParseError(line.error().message, kExitUsage);
  if (flags_.as_check) {
    if (!line->program.empty()) {
      throw CLI::ParseError("takes no PROGRAM; remove " + line->program.front(), kExitUsage);
    }
    line->program = {kCheckRankCommand};
  }
  line_ = std::move(*line);
  given_ = line_;
  if (line_.find("hosts") == nullptr) placed_ = place_by_engine(line_, environment);
  if (const GivenFlag* flag = line_.find("print-completion")) {
    throw CompletionAsked{completion_script(*flag, flags_.as_torchrun)};
  }
  std::vector<std::string> words{command_->get_name()};
  for (const auto& [name, given] : line_.flags) {
    const CLI::Option* option = command_->get_option_no_throw("--" + name);
    if (option == nullptr) {
      throw CLI::ValidationError(given.said, "is not supported yet; remove it");
    }
    words.push_back("--" + name);
    if (option->get_items_expected_max() > 0) words.push_back(given.value);
  }
  return words;
}

void LaunchCommand::check(const Environment& environment) {
  if (line_.find("hosts") != nullptr) return check_hosts(environment);
  check_without_hosts(line_);
  if (placed_.error) {
    if (!placed_.tells_error) throw SaidByTask0{};
    throw CLI::ParseError(placed_.error->message, kExitUsage);
  }
  const bool is_placed = placed_.place.mode != EngineMode::kAlone;
  if (is_placed) {
    flags_.is_placed = true;
    flags_.shares_console = !placed_.facts->has_own_host;
    flags_.task = placed_.place.task;
    for (std::string* file : {&flags_.html, &flags_.trace, &flags_.record, &flags_.save_digests}) {
      *file = file_of_task(*file, *placed_.facts->task.value);
    }
  }
  options_ = launch_options(flags_, line_, this_machine(environment), environment);
  if (flags_.as_check) options_.log.prefix = PrefixTemplate::parse("").value();
  if (is_placed) {
    options_.log.host = placed_.facts->host.value.value_or(options_.log.host);
  }
  if (placed_.facts && options_.nproc_per_node == 1) {
    options_.engine_socket = placed_.facts->socket.value;
  }
}

void LaunchCommand::check_hosts(const Environment& environment) {
  hosts_ = hosts_launch(flags_, line_, environment);
  // The hosts have other numbers of GPUs than this machine.
  LaunchFlags flags = flags_;
  flags.nproc_per_node = most_workers(*hosts_, flags_);
  options_ = options_on_hosts(*hosts_, flags, line_, environment);
}

int LaunchCommand::run(const Environment& environment, std::ostream& out, std::ostream& console) {
  if (hosts_) return run_hosts(environment, out, console);
  std::ostream* messages = &console;
  const TerminationLog log(line_.find("termination-log") != nullptr
                               ? flags_.termination_log
                               : default_termination_log(environment));
  const auto leave_message = [&](const std::string& text) {
    if (text.empty()) return;
    if (const auto written = log.write(text); !written) {
      console << "distrun: --termination-log: " << written.error().message << std::endl;
    }
  };
  const auto fail = [&](const Error& error) {
    const std::string text = fmt::format("{}: {}\n", name_, error.message);
    *messages << text << std::flush;
    leave_message(text);
    return exit_status(error);
  };
  if (options_.run_id.empty()) options_.run_id = random_run_id();
  const auto command = flags_.as_check ? Result<Command>(check_rank_command(options_.log.host))
                                       : resolve_command(options_, environment);
  if (!command) return fail(command.error());
  auto plan = make_plan(options_, *command,
                        flags_.as_check ? without_own_default(environment) : environment);
  if (!plan) return fail(plan.error());
  if (const auto bound = bind_workers(*plan); !bound) return fail(bound.error());
  if (flags_.dry_run) {
    out << dry_run_text(*plan) << std::flush;
    return 0;
  }
  if (flags_.check) {
    const auto status = check_first(given_, environment, options_);
    if (!status) return fail(status.error());
    if (*status != 0) return *status;
  }
  LaunchContext context{.in = input_of_workers(), .host = options_.log.host};
  auto reports = LaunchReports::open(flags_, *plan, context.host);
  if (!reports) return fail(reports.error());
  RecordedStream recorded(console, Printed::kStderr, (*reports)->recording());
  std::ostream& err = recorded.stream();
  messages = &err;
  auto files = RunFiles::make(*plan);
  if (!files) return fail(files.error());

  const std::string log_folder = options_.log.keeps_files() ? files->folder : "";
  if (options_.log.keeps_files() && options_.log.folder.empty()) {
    err << "distrun: log files are in " << files->folder << std::endl;
  }

  // Otherwise the summary may be all that stderr's reader sees.
  const auto on_terminal = ::isatty(STDOUT_FILENO) != 0 && ::isatty(STDERR_FILENO) != 0
                               ? SummaryPlace::kBelowOutput
                               : SummaryPlace::kElsewhere;
  const auto launcher = [&](const Result<GuardLifeline>& lifeline) {
    if (!lifeline) return fail(lifeline.error());
    context.lifeline = *lifeline;
    (*reports)->listen(context);
    std::string summary, account;
    context.summary = [&](const RunReport& end) {
      if (flags_.as_check && exit_status(end.run_end) == kExitFindings) return summary;
      if (log.exists()) account = failure_account(*plan, end, context.host);
      return summary = failure_summary(*plan, end, context.host, on_terminal);
    };
    const auto run_end = run_here(*plan, std::move(*files), context);
    const int status = run_end ? exit_status(*run_end) : fail(run_end.error());
    leave_message(account);
    for (const std::string& problem : (*reports)->finish(summary)) {
      err << "distrun: " << problem << std::endl;
    }
    const auto written = (*reports)->end_recording(recording_facts(status), log_folder);
    if (!written) console << "distrun: --record: " << written.error().message << std::endl;
    return status;
  };
  const auto on_end = [&](const Guarded& guarded) {
    const auto* killed = std::get_if<KilledBy>(&guarded.end);
    if (killed == nullptr) return;
    // Here, as the guard may have been killed too.
    files->temporary.reset();
    files->store.reset();
    const std::string text = launcher_killed(guarded, *killed);
    console << text << std::flush;
    leave_message(text);
  };
  const auto status = run_guarded(signals_of(options_), launcher, on_end);
  return status ? *status : fail(status.error());
}

int LaunchCommand::run_hosts(const Environment& environment, std::ostream& out, std::ostream& err) {
  const auto fail = [&](const Error& error) {
    err << name_ << ": " << error.message << std::endl;
    return exit_status(error);
  };
  if (flags_.dry_run) {
    out << dry_run_text(*hosts_) << std::flush;
    return 0;
  }
  if (flags_.check) {
    const auto checked = check_first(given_, environment, options_);
    if (!checked) return fail(checked.error());
    if (*checked != 0) return *checked;
  }
  out.flush();
  err.flush();
  const auto status = run_on_hosts(*hosts_, options_, environment);
  return status ? *status : fail(status.error());
}

RecordingFacts LaunchCommand::recording_facts(int status) const {
  RecordingFacts facts = facts_of_this_process();
  facts.command = words_;
  facts.rerun = {words_.begin(), words_.begin() + (flags_.as_torchrun ? 1 : 2)};
  for (const auto& [name, given] : given_.flags) {
    if (writes_a_report(name)) continue;
    const bool has_value = command_->get_option("--" + name)->get_items_expected_max() > 0;
    facts.rerun.push_back(has_value ? "--" + name + '=' + given.value : "--" + name);
  }
  facts.rerun_tail = line_.program;
  if (line_.program.front().starts_with('-'))
    facts.rerun_tail.insert(facts.rerun_tail.begin(), "--");
  facts.status = status;
  return facts;
}

Result<RunEnd> LaunchCommand::run_here(LaunchPlan& plan, RunFiles files,
                                       const LaunchContext& context) const {
  auto run_end = run_launch(plan, files, context);
  if (run_end) return run_end;
  Error error = run_end.error();
  if (error.kind == ErrorKind::kAddressNotLocal) {
    error.message = options_.address_flag + ' ' + error.message;
  } else if (error.kind == ErrorKind::kAddressInUse) {
    error.message += options_.nnodes > 1 ? "; give another --master-port, the same on every node"
                                         : "; give another --master-port, or none for a free one";
  }
  return error;
}

}  // namespace distrun
