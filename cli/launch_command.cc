#include "cli/launch_command.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <random>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include "cli/flags.h"
#include "common/parse_number.h"
#include "launcher/command.h"
#include "launcher/driver.h"
#include "launcher/event_file.h"
#include "launcher/guard.h"
#include "launcher/news_json.h"
#include "launcher/news_line.h"
#include "launcher/plan.h"
#include "launcher/run_end.h"
#include "launcher/run_files.h"
#include "launcher/several_nodes.h"
#include "launcher/store_choice.h"
#include "launcher/summary.h"

namespace distrun {

namespace {

constexpr const char* kExamples =
    R"(PROGRAM is executed as it is; a .py file, or a module with -m, runs with python3 -u
(PYTHON_EXEC names another).  Every flag can also be given as PET_<FLAG>, and with
underscores for dashes.

SIGUSR1 has distrun print where each worker stands.

Exit status: 0; that of the first worker to fail, or 128 + its signal; 2 wrong usage;
124 --timeout; 125 distrun itself failed; 126 PROGRAM cannot be executed; 127 not found;
128 + signal where a signal told distrun to end.

Examples:
  distrun launch --nproc-per-node 2 build/examples/train_digits examples/data/digits.csv
  distrun launch --nproc-per-node 4 train.py --epochs 3
  distrun launch --nproc-per-node 4 --timeout 600 -m my_package.train
  distrun launch --nproc-per-node 2 sh -c 'echo rank $RANK of $WORLD_SIZE')";

constexpr int kWorkersMax = 65536;

int usable_cpus() {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  return ::sched_getaffinity(0, sizeof(cpus), &cpus) == 0 ? CPU_COUNT(&cpus) : 1;
}

int workers_from(const std::string& text) {
  if (text == "cpu") return usable_cpus();
  if (text == "gpu" || text == "auto" || text == "xpu") {
    throw CLI::ValidationError("--nproc-per-node",
                               "'" + text + "' is not supported yet: give a number, or 'cpu'");
  }
  const auto workers = parse_number<int>(text, 1, kWorkersMax);
  if (!workers) throw CLI::ValidationError("--nproc-per-node", workers.error().message);
  return *workers;
}

// "N", or torchrun's "MIN:MAX" where both are the same.
int nodes_from(const std::string& text) {
  constexpr int kNodesMax = 65536;
  const auto colon = std::min(text.find(':'), text.size());
  const auto min = parse_number<int>(text.substr(0, colon), 1, kNodesMax);
  if (!min) throw CLI::ValidationError("--nnodes", min.error().message);
  if (colon < text.size() && text.substr(colon + 1) != text.substr(0, colon)) {
    throw CLI::ValidationError("--nnodes", "'" + text + "': only a fixed number is supported yet");
  }
  return *min;
}

StoreChoice store_from(const std::string& text) {
  std::error_code error;  // Where there is none, an absolute path is asked for.
  const std::string folder = std::filesystem::current_path(error).string();
  auto store = parse_store_choice(text, folder);
  if (!store) throw CLI::ValidationError("--store", store.error().message);
  return std::move(*store);
}

std::string random_run_id() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}", random(), random());
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

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "this host";
}

}  // namespace

LaunchCommand::LaunchCommand(CLI::App& app)
    : command_(app.add_subcommand("launch", "Start the workers of a run and watch them.")) {
  CLI::App& launch = *command_;
  launch.formatter(std::make_shared<HelpFormatter>("distrun launch [flags] PROGRAM [ARGS...]"));
  launch.footer(kExamples);
  launch.prefix_command();

  flag(launch, "nproc-per-node", nproc_per_node_, "Workers on this node, or 'cpu': one per core.");
  flag(launch, "nnodes", nnodes_, "Nodes; on each one distrun is started.");
  flag(launch, "node-rank", options_.node_rank,
       "This node among them, from 0 on; node 0 has --master-addr.");
  flag(launch, "standalone", standalone_, "Accepted: one node needs no rendezvous.");
  flag(launch, "rdzv-id", options_.run_id, "TORCHELASTIC_RUN_ID; random by default.");
  flag(launch, "role", options_.role, "ROLE_NAME of the workers.");
  flag(launch, "store", store_,
       "Where workers meet: 'tcp', or 'file:PATH', a file that is not there yet.");
  flag(launch, "master-addr", options_.master_addr,
       "Where a TCP store listens, MASTER_ADDR: a numeric address; of several nodes, node 0's, or "
       "its name.");
  flag(launch, "master-port", master_port_,
       "Its port, MASTER_PORT; 0: a free one; several nodes: 29500 by default.");
  flag(launch, "rdzv-conf", rdzv_conf_,
       "timeout=S: how many seconds the nodes wait for each other, 900 by default.");
  flag(launch, "same-user", options_.same_user,
       "Refuse the store to processes of other users, and to other machines.");
  flag(launch, "max-restarts", max_restarts_,
       "New attempts after a failed one, each with a fresh store.");
  flag(launch, "shutdown-timeout", shutdown_timeout_,
       "Seconds that workers have to end after SIGTERM, before SIGKILL.");
  flag(launch, "timeout", timeout_, "End the run after so many seconds; 0: never.");
  log_flags_.add_to(launch);
  flag(launch, "events", events_, "Append what happens to this file, as lines of JSON.");
  flag(launch, "module", options_.module, "PROGRAM is a Python module, as for python3 -m.", "m");
  flag(launch, "no-python", options_.no_python, "Execute PROGRAM itself, also where it is a .py.");
}

std::vector<std::string> LaunchCommand::without_separator(
    std::vector<std::string> arguments) const {
  if (arguments.empty() || arguments.front() != command_->get_name()) return arguments;
  for (std::size_t i = 1; i < arguments.size() && arguments[i].starts_with('-'); ++i) {
    if (arguments[i] == "--") {
      arguments.erase(arguments.begin() + static_cast<std::ptrdiff_t>(i));
      break;
    }
    // The value of a flag that takes one is not looked at.
    const CLI::Option* option = command_->get_option_no_throw(arguments[i]);
    if (option != nullptr && option->get_items_expected_max() > 0) ++i;
  }
  return arguments;
}

void LaunchCommand::check(const Environment& environment) {
  std::vector<std::string> words = command_->remaining();
  // What is not known as a flag and stands before the program.
  if (!words.empty() && words.front().size() > 1 && words.front().front() == '-') {
    throw CLI::ParseError("unknown flag " + words.front(), kExitUsage);
  }
  if (words.empty()) throw CLI::RequiredError("PROGRAM");
  options_.program = words.front();
  options_.arguments.assign(words.begin() + 1, words.end());

  options_.nproc_per_node = workers_from(nproc_per_node_);
  options_.nnodes = nodes_from(nnodes_);
  options_.log = log_flags_.choice(environment, options_.nproc_per_node);
  options_.log.host = host_name();
  if (command_->count("--events") > 0 && events_.empty()) {
    throw CLI::ValidationError("--events", "names no file");
  }
  if (max_restarts_ < 0) {
    throw CLI::ValidationError("--max-restarts", "must not be negative");
  }
  options_.max_restarts = max_restarts_;
  if (options_.module && options_.no_python) {
    throw CLI::ValidationError("--module", "cannot be combined with --no-python");
  }
  options_.store = store_from(store_);
  for (const std::string name : {"--master-addr", "--master-port"}) {
    if (options_.store.kind == StoreChoice::Kind::kFile && command_->count(name) > 0) {
      throw CLI::ValidationError(name, "cannot be combined with --store " + store_);
    }
  }
  if (options_.store.kind == StoreChoice::Kind::kFile && options_.same_user) {
    throw CLI::ValidationError("--same-user", "cannot be combined with --store " + store_);
  }
  if (options_.master_addr == "localhost") options_.master_addr = "127.0.0.1";
  const auto port = parse_number<std::uint16_t>(master_port_);
  if (!port) throw CLI::ValidationError("--master-port", port.error().message);
  options_.master_port = *port;
  if (options_.nnodes > 1 && *port == 0 && command_->count("--master-port") > 0) {
    throw CLI::ValidationError("--master-port", "0: several nodes need one that all of them know");
  }
  if (const auto settled = settle_several_nodes(options_); !settled) {
    throw CLI::ParseError(settled.error().message, kExitUsage);
  }
  const auto join_timeout = join_timeout_of(rdzv_conf_);
  if (!join_timeout) throw CLI::ParseError(join_timeout.error().message, kExitUsage);
  options_.join_timeout = join_timeout->value_or(options_.join_timeout);
  options_.shutdown_timeout = seconds_from("--shutdown-timeout", shutdown_timeout_);
  const auto timeout = seconds_from("--timeout", timeout_);
  if (timeout.count() > 0) options_.timeout = timeout;
}

int LaunchCommand::run(const Environment& environment, std::ostream&, std::ostream& err) {
  const auto fail = [&](const Error& error) {
    err << "distrun launch: " << error.message << std::endl;
    return exit_status(error);
  };
  if (options_.run_id.empty()) options_.run_id = random_run_id();
  const auto command = resolve_command(options_, environment);
  if (!command) return fail(command.error());
  auto plan = make_plan(options_, *command, environment);
  if (!plan) return fail(plan.error());
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
  const auto guarded = run_guarded(signals_of(options_), [&](const Result<GuardTie>& tie) {
    if (!tie) return fail(tie.error());
    context.tie = *tie;
    context.on_news = [&, host = host_name()](const RunNews& news) {
      if (events) events->write(news_json(news, *plan, host, std::chrono::system_clock::now()));
      return news_line(*plan, news);
    };
    context.summary = [&](const RunReport& report) {
      return failure_summary(*plan, report, host_name());
    };
    const int status = run_here(*plan, std::move(*files), context, err);
    if (const auto lost = events ? events->finish() : std::nullopt) {
      err << "distrun: " << lost->message << std::endl;
    }
    return status;
  });
  if (!guarded) return fail(guarded.error());
  if (const auto* killed = std::get_if<KilledBy>(&guarded->launcher)) {
    err << launcher_killed(*guarded, *killed) << std::flush;
  }
  return exit_status(guarded->launcher);
}

int LaunchCommand::run_here(LaunchPlan& plan, RunFiles files, const LaunchContext& context,
                            std::ostream& err) {
  const auto run_end = run_launch(plan, files, context);
  if (run_end) return exit_status(*run_end);
  err << "distrun launch: " << run_end.error().message;
  if (run_end.error().kind == ErrorKind::kAddressInUse) {
    err << "; give another --master-port, or none for a free one";
  }
  err << std::endl;
  return exit_status(run_end.error());
}

}  // namespace distrun
