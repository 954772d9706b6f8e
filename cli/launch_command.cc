#include "cli/launch_command.h"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <random>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <unistd.h>

#include "cli/flags.h"
#include "common/os/host_name.h"
#include "common/os/signal_list.h"
#include "common/text/parse_number.h"
#include "distrun/process_end.h"
#include "launcher/outcome/run_end.h"
#include "launcher/plan/command.h"
#include "launcher/plan/plan.h"
#include "launcher/plan/rendezvous.h"
#include "launcher/plan/several_nodes.h"
#include "launcher/plan/store_choice.h"
#include "launcher/plan/worker_count.h"
#include "launcher/process/guard.h"
#include "launcher/report/dry_run.h"
#include "launcher/report/event_file.h"
#include "launcher/report/event_json.h"
#include "launcher/report/event_line.h"
#include "launcher/report/summary.h"
#include "launcher/run/driver.h"
#include "launcher/run/run_files.h"

namespace distrun {

namespace {

// {0}: the command's name.
constexpr const char* kLaunchHelp =
    R"({1}
Every flag can also be given as PET_<FLAG>, with underscores for dashes, and by the beginning of its
name.  docs/torchrun.md holds each against torchrun's.

SIGUSR1 has distrun print where each worker stands.

Exit status: 0; that of the first worker to fail, or 128 + its signal; 2 wrong usage;
124 --timeout; 125 distrun itself failed; 126 PROGRAM cannot be executed; 127 not found;
128 + signal where a signal told distrun to end.

Examples:
  {0} --nproc-per-node 4 train.py --epochs 3
  {0} --nproc-per-node 4 --timeout 600 -m my_package.train
  {0} --nproc-per-node 2 --no-python sh -c 'echo rank $RANK of $WORLD_SIZE'
  {0} --nproc-per-node 2 --dry-run train.py)";

constexpr const char* kProgram =
    R"(PROGRAM is executed as it is; a .py file, or a module with -m, runs with python3 -u
(PYTHON_EXEC names another).)";
constexpr const char* kTorchrunsProgram =
    R"(PROGRAM runs with python3 -u (PYTHON_EXEC names another); with --no-python it is executed
as it is.)";

StoreChoice store_from(const std::string& text) {
  std::error_code error;  // Where there is none, an absolute path is asked for.
  const std::string folder = std::filesystem::current_path(error).string();
  auto store = parse_store_choice(text, folder);
  if (!store) throw CLI::ValidationError("--store", store.error().message);
  return std::move(*store);
}

// A UUID, as torchrun makes one.
std::string random_run_id() {
  std::random_device random;
  const unsigned a = random(), b = random(), c = random(), d = random();
  return fmt::format("{:08x}-{:04x}-4{:03x}-{:04x}-{:04x}{:08x}", a, b >> 16, b & 0xfff,
                     0x8000 | (c >> 18), c & 0xffff, d);
}

// What local rank 0 reads, or -1.  A job in the background has no business with the terminal.
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
  std::string text = fmt::format("distrun: the launcher (pid {}) was killed: {}\n",
                                 guarded.launcher_pid, describe(by));
  if (!guarded.left.survivors.empty()) {
    text += fmt::format("  {} of its processes are stuck in the kernel, and still there\n",
                        guarded.left.survivors.size());
  } else {
    text += "  every process of the run has been ended\n";
  }
  return text;
}

}  // namespace

LaunchCommand::LaunchCommand(CLI::App& app, const std::string& name, bool as_torchrun)
    : command_(app.add_subcommand("launch", "Start the workers of a run and watch them.")),
      name_(name),
      as_torchrun_(as_torchrun) {
  command_->formatter(std::make_shared<HelpFormatter>(name + " [flags] PROGRAM [ARGS...]"));
  command_->footer(
      fmt::format(fmt::runtime(kLaunchHelp), name, as_torchrun ? kTorchrunsProgram : kProgram));
  bind_flag(*command_, "nproc-per-node", nproc_per_node_);
  bind_flag(*command_, "nnodes", nnodes_);
  bind_flag(*command_, "node-rank", node_rank_);
  bind_flag(*command_, "standalone", standalone_);
  bind_flag(*command_, "rdzv-backend", rdzv_backend_);
  bind_flag(*command_, "rdzv-endpoint", rdzv_endpoint_);
  bind_flag(*command_, "rdzv-id", options_.run_id);
  bind_flag(*command_, "rdzv-conf", rdzv_conf_);
  bind_flag(*command_, "local-addr", local_addr_);
  bind_flag(*command_, "master-addr", master_addr_);
  bind_flag(*command_, "master-port", master_port_);
  bind_flag(*command_, "store", store_);
  bind_flag(*command_, "same-user", options_.same_user);
  bind_flag(*command_, "role", options_.role);
  bind_flag(*command_, "max-restarts", max_restarts_);
  bind_flag(*command_, "timeout", timeout_);
  bind_flag(*command_, "shutdown-timeout", shutdown_timeout_);
  bind_flag(*command_, "signals-to-handle", signals_to_handle_);
  bind_flag(*command_, "forward-signals", forward_signals_);
  bind_flag(*command_, "module", options_.module);
  bind_flag(*command_, "no-python", options_.no_python);
  bind_flag(*command_, "run-path", run_path_);
  bind_flag(*command_, "virtual-local-rank", options_.virtual_local_rank);
  log_flags_.add_to(*command_);
  bind_flag(*command_, "events", events_);
  bind_flag(*command_, "dry-run", dry_run_);
  bind_flag(*command_, "start-method", start_method_);
  bind_flag(*command_, "monitor-interval", monitor_interval_);
  bind_flag(*command_, "event-log-handler", event_log_handler_);
  bind_flag(*command_, "logs-specs", logs_specs_);
  bind_flag(*command_, "numa-binding", numa_binding_);
}

std::vector<std::string> LaunchCommand::read(std::vector<std::string> arguments,
                                             const Environment& environment) {
  if (arguments.empty() || arguments.front() != command_->get_name()) return arguments;
  arguments.erase(arguments.begin());
  auto line = split_command_line(launch_flags(), arguments, environment);
  if (!line) throw CLI::ParseError(line.error().message, kExitUsage);
  line_ = std::move(*line);
  std::vector<std::string> words{command_->get_name()};
  for (const auto& [name, given] : line_.flags) {
    const CLI::Option* option = command_->get_option_no_throw("--" + name);
    if (option == nullptr) refuse(name, "not supported yet: leave it out");
    words.push_back("--" + name);
    if (option->get_items_expected_max() > 0) words.push_back(given.value);
  }
  return words;
}

void LaunchCommand::refuse(std::string_view name, const std::string& message) const {
  const GivenFlag* given = line_.find(name);
  throw CLI::ValidationError(given != nullptr ? given->said : fmt::format("--{}", name), message);
}

template <class Value>
Value LaunchCommand::taken(std::string_view name, Result<Value> value) const {
  if (!value) refuse(name, value.error().message);
  return std::move(*value);
}

void LaunchCommand::check(const Environment& environment) {
  take_program();
  options_.nproc_per_node =
      taken("nproc-per-node", parse_worker_count(nproc_per_node_, this_machine(environment)));
  options_.max_restarts = taken("max-restarts", parse_number<int>(max_restarts_, 0));
  take_nodes();
  take_store();
  take_rendezvous();
  take_log(environment);
  take_signals();
  take_times(environment);
  check_what_is_not_used();
}

void LaunchCommand::take_program() {
  if (line_.program.empty()) throw CLI::RequiredError("PROGRAM");
  options_.program = line_.program.front();
  options_.arguments.assign(line_.program.begin() + 1, line_.program.end());
  if (run_path_) {  // It wins over the two others, as under torchrun.
    options_.module = options_.no_python = false;
  }
  if (options_.module && options_.no_python) {
    refuse("module", "cannot be combined with --no-python");
  }
  options_.python = run_path_ || as_torchrun_;
}

void LaunchCommand::take_nodes() {
  const auto colon = nnodes_.find(':');
  const int min = taken("nnodes", parse_number<int>(nnodes_.substr(0, colon), 1));
  const int max = colon == std::string::npos
                      ? min
                      : taken("nnodes", parse_number<int>(nnodes_.substr(colon + 1), 1));
  if (min > max) refuse("nnodes", "'" + nnodes_ + "' is not MIN:MAX");
  if (min < max) refuse("nnodes", "elastic is not there yet: say how many nodes there are");
  options_.nnodes = max;
  options_.node_rank = taken("node-rank", parse_number<int>(node_rank_, 0));
  if (options_.node_rank >= options_.nnodes) {
    refuse("node-rank", fmt::format("there is no node {} among --nnodes {}: the first is 0",
                                    options_.node_rank, options_.nnodes));
  }
}

void LaunchCommand::take_rendezvous() {
  RendezvousFlags flags{.backend = taken("rdzv-backend", parse_rdzv_backend(rdzv_backend_)),
                        .standalone = standalone_,
                        .run_id = options_.run_id,
                        .master_addr = taken("master-addr", parse_host(master_addr_))};
  if (!rdzv_endpoint_.empty())
    flags.endpoint = taken("rdzv-endpoint", parse_endpoint(rdzv_endpoint_));
  if (flags.backend == RdzvBackend::kStatic && !standalone_ && flags.endpoint &&
      !flags.endpoint->port) {
    refuse("rdzv-endpoint", "'" + rdzv_endpoint_ + "' has no port: HOST:PORT");
  }
  const auto port = taken("master-port", parse_number<std::uint16_t>(master_port_));
  if (line_.find("master-port") != nullptr) flags.master_port = port;
  if (!local_addr_.empty()) flags.local_addr = taken("local-addr", parse_host(local_addr_));
  const auto conf = parse_rdzv_conf(rdzv_conf_);
  if (!conf) refuse("rdzv-conf", conf.error().message);
  if (options_.nnodes > 1) return take_nodes_rendezvous(flags);

  RunRendezvous place = run_rendezvous(flags);
  options_.master_addr = std::move(place.address);
  options_.master_port = place.port;
  options_.run_id = std::move(place.run_id);
}

void LaunchCommand::take_nodes_rendezvous(const RendezvousFlags& flags) {
  if (standalone_) refuse("standalone", "is one node: leave it out, or --nnodes");
  if (flags.backend == RdzvBackend::kC10d) {
    refuse(
        "rdzv-backend",
        "c10d gives nodes their ranks, which is not there yet: leave it out, and say --node-rank");
  }
  options_.master_addr = flags.endpoint ? flags.endpoint->host : flags.master_addr;
  const auto port = flags.endpoint ? flags.endpoint->port : flags.master_port;
  if (port == 0) {
    refuse(flags.endpoint ? "rdzv-endpoint" : "master-port",
           "0: several nodes need a port that all of them know");
  }
  options_.master_port = port.value_or(0);  // Then its default for several nodes.
  if (const auto settled = settle_several_nodes(options_); !settled) {
    throw CLI::ParseError(settled.error().message, kExitUsage);
  }
  options_.join_timeout =
      taken("rdzv-conf", join_timeout_of(rdzv_conf_)).value_or(options_.join_timeout);
}

void LaunchCommand::take_log(const Environment& environment) {
  options_.log = log_flags_.choice(line_, environment, options_.nproc_per_node);
  options_.log.host = host_name();
  if (line_.find("events") != nullptr && events_.empty()) refuse("events", "names no file");
}

void LaunchCommand::take_store() {
  options_.store = store_from(store_);
  if (options_.store.kind != StoreChoice::Kind::kFile) return;
  for (const std::string_view name : {"master-addr", "master-port", "rdzv-endpoint", "same-user"}) {
    if (line_.find(name) != nullptr) refuse(name, "cannot be combined with --store " + store_);
  }
}

void LaunchCommand::take_signals() {
  options_.end_signals = taken("signals-to-handle", parse_signals(signals_to_handle_));
  options_.forward_signals = taken("forward-signals", parse_signals(forward_signals_));
  for (const int signal : options_.forward_signals) {
    const auto& ends = options_.end_signals;
    if (std::find(ends.begin(), ends.end(), signal) == ends.end()) continue;
    refuse("forward-signals",
           signal_name(signal) +
               " ends the run: leave it out, or name the signals that are to end "
               "it in --signals-to-handle");
  }
}

void LaunchCommand::take_times(const Environment& environment) {
  constexpr const char* kTorchsVariable = "TORCH_ELASTIC_SHUTDOWN_TIMEOUT";
  const auto variable = environment.get(kTorchsVariable);
  if (line_.find("shutdown-timeout") == nullptr && variable) {
    options_.shutdown_timeout = seconds_from(kTorchsVariable, *variable);
  } else {
    options_.shutdown_timeout = seconds_from("--shutdown-timeout", shutdown_timeout_);
  }
  const auto timeout = seconds_from("--timeout", timeout_);
  if (timeout.count() > 0) options_.timeout = timeout;
}

// What makes no sense without Python is taken where it would change nothing.
void LaunchCommand::check_what_is_not_used() const {
  constexpr auto kStartMethods = std::to_array<std::string_view>({"spawn", "fork", "forkserver"});
  if (std::find(kStartMethods.begin(), kStartMethods.end(), start_method_) == kStartMethods.end()) {
    refuse("start-method", "'" + start_method_ + "' is neither spawn nor fork nor forkserver");
  }
  seconds_from("--monitor-interval", monitor_interval_);
  if (event_log_handler_ != "null") {
    refuse("event-log-handler", "'" + event_log_handler_ +
                                    "' is a handler in Python: leave it out; --events FILE writes "
                                    "what happens in a run");
  }
  if (!logs_specs_.empty()) {
    refuse("logs-specs", "'" + logs_specs_ + "' is a plug-in in Python: leave it out");
  }
  if (!numa_binding_.empty()) {
    refuse("numa-binding", "not supported yet: leave it out, or start PROGRAM with numactl");
  }
}

int LaunchCommand::run(const Environment& environment, std::ostream& out, std::ostream& err) {
  const auto fail = [&](const Error& error) {
    err << name_ << ": " << error.message << std::endl;
    return exit_status(error);
  };
  if (options_.run_id.empty()) options_.run_id = random_run_id();
  const auto command = resolve_command(options_, environment);
  if (!command) return fail(command.error());
  auto plan = make_plan(options_, *command, environment);
  if (!plan) return fail(plan.error());
  if (dry_run_) {
    out << dry_run_text(*plan) << std::flush;
    return 0;
  }
  std::optional<EventFile> events;
  if (!events_.empty()) {
    auto file = EventFile::open(events_);
    if (!file) return fail(file.error());
    events.emplace(std::move(*file));
  }
  auto files = RunFiles::make(*plan);
  if (!files) return fail(files.error());

  if (options_.log.keeps_files() && options_.log.folder.empty()) {
    err << "distrun: log files are in " << files->folder << std::endl;
  }

  LaunchContext context{.in = input_of_workers(), .host = host_name()};
  const auto launcher = [&](const Result<GuardLifeline>& lifeline) {
    if (!lifeline) return fail(lifeline.error());
    context.lifeline = *lifeline;
    context.on_event = [&, host = host_name()](const RunEvent& event) {
      if (events) events->write(event_json(event, *plan, host, std::chrono::system_clock::now()));
      return event_line(*plan, event);
    };
    context.summary = [&](const RunReport& report) {
      return failure_summary(*plan, report, host_name());
    };
    const int status = run_here(*plan, std::move(*files), context, err);
    if (const auto lost = events ? events->finish() : std::nullopt) {
      err << "distrun: " << lost->message << std::endl;
    }
    return status;
  };
  const auto on_end = [&](const Guarded& guarded) {
    const auto* killed = std::get_if<KilledBy>(&guarded.launcher);
    if (killed != nullptr) err << launcher_killed(guarded, *killed) << std::flush;
  };
  const auto status = run_guarded(signals_of(options_), launcher, on_end);
  return status ? *status : fail(status.error());
}

int LaunchCommand::run_here(LaunchPlan& plan, RunFiles files, const LaunchContext& context,
                            std::ostream& err) {
  const auto run_end = run_launch(plan, files, context);
  if (run_end) return exit_status(*run_end);
  err << name_ << ": " << run_end.error().message;
  if (run_end.error().kind == ErrorKind::kAddressInUse) {
    err << (options_.nnodes > 1 ? "; give another --master-port, the same on every node"
                                : "; give another --master-port, or none for a free one");
  }
  err << std::endl;
  return exit_status(run_end.error());
}

}  // namespace distrun
