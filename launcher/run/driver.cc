#include "launcher/run/driver.h"

#include <chrono>
#include <csignal>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "launcher/control/metrics_server.h"
#include "launcher/control/run_server.h"
#include "launcher/process/guard_watch.h"
#include "launcher/process/worker_process.h"
#include "launcher/report/run_snapshot.h"
#include "launcher/run/flight_recorders.h"
#include "launcher/run/load_watch.h"
#include "launcher/run/nccl_ras.h"
#include "launcher/run/node_link.h"
#include "launcher/run/output_drain.h"
#include "launcher/run/progress_watch.h"
#include "launcher/run/run_collectives.h"
#include "launcher/run/run_output.h"
#include "launcher/run/run_progress.h"
#include "launcher/run/run_reporter.h"
#include "launcher/run/run_signals.h"
#include "launcher/run/store_host.h"
#include "launcher/run/supervisor_loop.h"
#include "launcher/run/worker_pool.h"
#include "launcher/run/worker_stacks.h"

namespace distrun {

namespace asio = boost::asio;

namespace {

// How often the answers of NCCL are looked for: files of flight recorders, and texts of RAS.
constexpr std::chrono::milliseconds kNcclInterval{10};

// How long reading evidence may take, on this node.
struct EvidenceLimits {
  std::chrono::milliseconds stacks{10'000};
  // Flight recorders look once a second whether they are asked. RAS waits a second for processes
  // that it knows to be slow, and 5 seconds longer for others: distrun does not wait so long.
  std::chrono::milliseconds nccl{2'500};
};
// A signal has ended the run, and its sender may soon send SIGKILL.
constexpr EvidenceLimits kShortLimits{.stacks = std::chrono::milliseconds(1'500),
                                      .nccl = std::chrono::milliseconds(1'200)};
static_assert(kShortLimits.nccl >= NcclRas::kPatienceMin, "RAS would answer too late");

class Driver {
 public:
  Driver(LaunchPlan& plan, RunFiles& files, const LaunchContext& context)
      : options_(plan.options),
        context_(context),
        output_(io_, plan, files.folder,
                {.out = context.out,
                 .err = context.err,
                 .captures = static_cast<bool>(context.on_output),
                 .copy = context.on_printed},
                [this](const RunOutput::Lost& lost) { output_lost(lost); }),
        drain_(io_, output_, plan.options.shutdown_timeout),
        reporter_(plan, context, output_),
        nodes_(io_, plan, context.host, node_handlers()),
        store_(io_, plan, files.store ? &*files.store : nullptr),
        signals_(io_, plan.options,
                 [this](RunSignals::Meaning meaning, int signal) { signalled(meaning, signal); }),
        loop_(io_,
              {.workers = static_cast<int>(plan.workers.size()),
               .max_restarts = plan.options.max_restarts,
               .nodes = plan.options.nnodes,
               .node = plan.options.node_rank,
               .shutdown_timeout = plan.options.shutdown_timeout,
               .timeout = plan.options.timeout},
              [this](const Actions& actions) { perform(actions); }),
        recorders_(plan),
        ras_(plan),
        collectives_(io_, plan, nodes_, context,
                     [this](const RunEvent& event) { reporter_.tell(event); }),
        workers_(
            io_, plan, context.in,
            [this](LocalRank worker, const ProcessEnd& end, std::chrono::milliseconds run_time) {
              worker_exited(worker, end, run_time);
            }) {
    place_.error_folder = files.folder;
    hang_after_ = plan.options.hang_after;
  }

  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  Result<RunEnd> run() {
    signals_.begin(context_.lifeline.blocked);  // Before any process starts.
    guard_.begin(context_.lifeline, [this] { loop_.happened(GuardLost{}); });
    if (const auto opened = open_metrics(); !opened) return opened.error();
    if (const auto opened = store_.open(nodes_.take_node(), nodes_.check_key()); !opened) {
      return opened.error();
    }
    store_.set_place(place_);
    place_.operations = collectives_.open();
    if (const auto opened = workers_.open(); !opened) return opened.error();
    reporter_.tell(RunStarted{::getpid(), store_.text()});
    if (nodes_.is_node_0() && !options_.shares_console && !options_.is_quiet) {
      reporter_.tell(NodeNotice{"node 0 listens at " + store_.text() + store_.hint_on_nodes()});
    }
    // With a given port, the user knows the place.
    if (options_.metrics_port == 0) reporter_.tell(NodeNotice{"metrics are at " + metrics_->url()});
    if (!nodes_.has_others()) reporter_.print_map_of_one_node();
    if (hang_after_) watch_progress(*hang_after_);
    if (context_.on_load) load_.emplace(io_, workers_, context_.on_load).begin();
    open_server();
    loop_.start();
    nodes_.join();
    io_.run();
    if (not_joined_) return *not_joined_;
    if (!drain_.has_begun()) {
      return Error{ErrorKind::kSystem, "bug: the event loop ended before the run"};
    }
    // From here on, signals must not change this process's exit.
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, nullptr);
    return reporter_.run_end();
  }

 private:
  // Events.

  void worker_exited(LocalRank worker, const ProcessEnd& end, std::chrono::milliseconds run_time) {
    if (!succeeded(end) && workers_.has_dumped_core(worker)) reporter_.core_dumped(worker);
    reporter_.worker_ended({place_.attempt, worker, workers_.pid(worker), end, run_time}, place_);
    if (end == ProcessEnd(KilledBy{SIGABRT})) show_watchdogs(worker);
    loop_.happened(Exited{worker, end});
  }

  // NCCL's watchdog may have ended the worker, because a collective has timed out.
  void show_watchdogs(LocalRank worker) {
    std::string collectives = recorders_.line_of_watchdogs(worker);
    if (collectives.empty()) return;
    const auto running = workers_.running();
    Whereabouts where;
    if (!running.empty()) {
      where = stacks_.read(running, store_.waits(), EvidenceLimits{}.stacks, ras_.port());
    }
    reporter_.stops_at({.attempt = place_.attempt,
                        .where = std::move(where),
                        .recorded = collectives_.line(),
                        .on_gpus = std::move(collectives)});
  }

  void output_lost(const RunOutput::Lost& lost) {
    if (lost.reader_gone) return loop_.happened(ReaderGone{});
    loop_.happened(OutputLost{lost.error});
  }

  void signalled(RunSignals::Meaning meaning, int signal) {
    using Meaning = RunSignals::Meaning;
    if (drain_.has_begun()) {
      // A first signal must not wait for slow readers. Otherwise the timeout is already set.
      if (meaning == Meaning::kEnd && !was_told_to_end()) drain_.stop();
    } else if (meaning == Meaning::kEnd) {
      reporter_.tell(SignalReceived{signal, /*forwarded=*/false});
      loop_.happened(Interrupted{signal});
    } else if (meaning == Meaning::kForward) {
      reporter_.tell(SignalReceived{signal, /*forwarded=*/true});
      loop_.happened(Forwarded{signal});
    } else if (meaning == Meaning::kSuspend) {
      loop_.happened(SuspendAsked{});
    } else {
      reporter_.print_workers(place_.attempt, rows());
      if (!workers_.running().empty()) reporter_.tell(read_stacks());
    }
  }

  // If this fails, the run goes on, but `distrun stacks` and `distrun top` do not find it.
  void open_server() {
    auto server = RunServer::open(io_, {own_pid_namespace(), context_.lifeline.started, ::getpid()},
                                  [this](std::string_view question) { return answer(question); });
    if (server) server_ = std::move(*server);
  }

  Result<void> open_metrics() {
    if (!options_.metrics_port) return {};
    auto server = MetricsServer::open(io_, options_.metrics_host, *options_.metrics_port,
                                      [this] { return context_.metrics(snapshot()); });
    if (server) {
      metrics_ = std::move(*server);
      return {};
    }
    const std::string& message = server.error().message;
    if (server.error().kind == ErrorKind::kAddressNotLocal) {
      return Error{ErrorKind::kSystem, "--metrics-host " + message};
    }
    return Error{ErrorKind::kSystem,
                 fmt::format("--metrics-port {}: {}; give another port, or 0 for a free one",
                             *options_.metrics_port, message)};
  }

  std::optional<std::string> answer(std::string_view question) {
    if (question == "about") return reporter_.about();
    if (question == "workers") return snapshot_json(snapshot());
    if (question != "stacks") return std::nullopt;
    if (workers_.running().empty()) return "no worker is running\n";
    const StacksRead read = read_stacks();
    std::string collectives = read.collectives();
    if (!collectives.empty()) collectives = fmt::format("collectives: {}\n", collectives);
    if (!read.nccl.empty()) collectives += fmt::format("NCCL: {}\n", read.nccl);
    return fmt::format("{}{}\n{}", collectives, read.where.line, read.where.stacks);
  }

  StacksRead read_stacks(const EvidenceLimits& limits = {}, bool asks_ras = true) {
    std::string recorded = collectives_.line();  // First: reading stacks takes time.
    const auto running = workers_.running();
    const bool asks = !std::exchange(is_asking_, true);
    if (asks) recorders_.ask(ranks_of(running), limits.nccl);
    // Blocks the loop: the store does not answer, and no process may be reaped.
    Whereabouts where = stacks_.read(running, store_.waits(), limits.stacks, ras_.port());
    std::string on_gpus, nccl;
    if (asks) {
      // Not before: its own connection would be among those of the workers.
      if (asks_ras) ras_.ask(running, limits.nccl);
      wait_for_nccl();
      on_gpus = recorders_.line();
      nccl = ras_.line();
      is_asking_ = false;
    } else {  // Called while wait_for_nccl() runs other handlers.
      nccl = "not asked, because another command is asking it; try again";
    }
    return {.attempt = place_.attempt,
            .where = std::move(where),
            .recorded = std::move(recorded),
            .on_gpus = std::move(on_gpus),
            .nccl = std::move(nccl)};
  }

  // PyTorch looks whether it is asked after it has asked the store something: the store must
  // answer. So other handlers run meanwhile; but what they tell the supervisor waits until the
  // caller has used the answers.
  void wait_for_nccl() {
    loop_.hold();
    for (;;) {
      const bool recorders_answer = !recorders_.is_waiting(), ras_answers = !ras_.is_waiting();
      if (recorders_answer && ras_answers) break;
      // What waits for the supervisor, such as Ctrl-C, is more important.
      if (loop_.has_waiting_events()) break;
      io_.run_one_for(kNcclInterval);
    }
    asio::post(io_, [this] { loop_.release(); });
  }

  std::vector<WorkerRow> rows() const {
    auto rows = workers_.rows();
    reporter_.mark_stragglers(rows);
    return rows;
  }

  RunSnapshot snapshot() {
    const auto all = rows();
    std::vector<std::uint64_t> output;
    for (std::size_t i = 0; i < all.size(); ++i) {
      output.push_back(output_.bytes(LocalRank(static_cast<int>(i))));
    }
    auto workers = snapshots_of(all, output);
    const auto operations = collectives_.last_operations();
    for (std::size_t i = 0; i < workers.size(); ++i) {
      workers[i].collective = operations[i].text;
      workers[i].operations = operations[i].begun;
      workers[i].last_collective = operations[i].collective;
    }
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return {.about = reporter_.about(),
            .attempt = place_.attempt,
            .at = std::chrono::floor<std::chrono::milliseconds>(now),
            .workers = std::move(workers)};
  }

  void watch_progress(std::chrono::milliseconds limit) {
    if (const auto opened = progress_.open(); !opened) {
      reporter_.tell(NodeNotice{"--hang-after cannot see TCP traffic here (" +
                                opened.error().message +
                                "): only output and the store count as progress"});
    }
    watch_.emplace(
        io_, limit, [this] { return progress_.mark(place_.store_port); },
        [this](bool is_quiet) {
          // The other nodes may make progress.
          if (nodes_.has_others()) return nodes_.report(NodeQuiet{place_.attempt, is_quiet});
          if (is_quiet) loop_.happened(Hung{});
        });
  }

  NodeLink::Handlers node_handlers() {
    return {.on_order = [this](SupervisorEvent event) { loop_.happened(std::move(event)); },
            .on_renew_store = [this] { static_cast<void>(store_.start_over()); },
            .on_error = [this](const Error& error) { end_alone(error); },
            .on_ranks = [this](const std::vector<RanksOfNode>& all) { reporter_.print_map(all); },
            .on_operations = [this](const NodeOperations& all) { collectives_.take(all); },
            .on_flight = [this](const RankFlight& flight) { take(flight); },
            .on_notice = [this](const std::string& text) { reporter_.tell(NodeNotice{text}); }};
  }

  void take(const RankFlight& flight) {
    if (flight.attempt == place_.attempt) recorders_.take(flight);
  }

  // No worker is left on any node.
  void compare_ranks(const RunEnd& end) {
    collectives_.end_attempt();
    if (end.cause == RunEnd::Cause::kSucceeded) return;
    std::string on_gpus = recorders_.line_of_all_nodes();
    if (!on_gpus.empty()) reporter_.nodes_compared(place_.attempt, std::move(on_gpus));
    if (end.cause == RunEnd::Cause::kWorkerFailed) {
      reporter_.ranks_disagreed(collectives_.disagreement(end));
    }
  }

  // Ends a run before any worker was started.
  void end_alone(const Error& error) {
    if (drain_.has_begun()) return;
    not_joined_ = error;
    loop_.end();
    if (load_) load_->end();
    RunEnd end;
    end.cause = RunEnd::Cause::kNotJoined;
    end.error = error;
    reporter_.tell(RunEnded{end});
    drain_.stop_after_timeout();
    drain_.begin([this] { drain_.stop(); });
  }

  // Actions.

  void perform(const Actions& actions) {
    for (const Action& action : actions) {
      std::visit([this](const auto& what) { perform(what); }, action);
    }
  }

  // If this fails, so does the first start, with the same error.
  void perform(const BeginAttempt& action) {
    place_.attempt = action.attempt;
    place_.interface = nodes_.interface();
    workers_.begin_attempt();
    output_.begin_attempt(action.attempt);
    collectives_.begin_attempt(action.attempt);
    recorders_.begin_attempt(place_);
    attempt_error_.reset();
    // Node 0 empties the store before it orders the start.
    if (action.attempt > 0 && !nodes_.has_others()) {
      if (const auto fresh = store_.start_over(); !fresh) attempt_error_ = fresh.error();
    }
    reporter_.attempt_started(action.attempt);
    if (watch_) watch_->begin();
  }

  // The answer is posted: between starts, the loop serves the store and handles signals and
  // failures.
  void perform(const Spawn& action) {
    const LocalRank worker = action.worker;
    const auto pid = start(worker);
    if (!pid) {
      asio::post(io_, [this, worker, error = pid.error()] {
        loop_.happened(SpawnFailed{worker, error});
      });
      return;
    }
    reporter_.worker_started({place_.attempt, worker, *pid});
    asio::post(io_, [this, worker] {
      loop_.happened(Spawned{worker});
      output_.watch(worker, [this, worker] { loop_.happened(OutputClosed{worker}); });
      workers_.watch(worker);
    });
  }

  Result<pid_t> start(LocalRank worker) {
    if (attempt_error_) return *attempt_error_;
    const auto output = output_.open(worker);
    if (!output) return output.error();
    return workers_.start(worker, place_, {.out = output->out.get(), .err = output->err.get()});
  }

  void perform(const SendSignal& action) { workers_.signal(action.worker, action.signal); }
  void perform(const Forward& action) { workers_.forward(action.worker, action.signal); }
  void perform(const Reap& action) { workers_.reap(action.worker); }

  void perform(const Suspend&) {
    reporter_.tell(RunSuspended{});
    ::raise(kSelfStop);  // Stops here until the guard continues it.
    reporter_.tell(RunContinued{});
    if (watch_) watch_->resume();
    loop_.happened(Continued{});
  }

  void perform(const CloseOutput& action) {
    const bool held = output_.close(action.worker);
    if (held) {
      reporter_.tell(OutputLeaked{place_.attempt, action.worker});
      workers_.note_leaked(action.worker);
    }
    loop_.happened(OutputClosed{action.worker, held});
  }

  void perform(const KillLeakedProcesses& action) {
    if (watch_) watch_->end();  // No worker is left.
    recorders_.end_attempt();
    for (const RankFlight& flight : recorders_.kept()) nodes_.send_flight(flight);
    collectives_.end_workers();
    reporter_.leaked_processes_killed(place_.attempt, workers_.kill_leaked(action.timeout));
  }

  void perform(const ShowStacks& action) {
    if (!workers_.running().empty()) {
      const bool asks_ras = !nodes_.has_others() || nodes_.is_node_0();  // It knows all nodes.
      StacksRead read = read_stacks(action.prints ? EvidenceLimits() : kShortLimits, asks_ras);
      read.prints = action.prints;
      reporter_.stops_at(read);
      recorders_.keep();
    }
    loop_.happened(StacksShown{});
  }

  void perform(const TellStillRunning& action) { reporter_.still_running(place_.attempt, action); }

  void perform(const TellFailedAttempt& action) {
    compare_ranks(action.end);
    reporter_.tell(AttemptFailed{action.end.attempt, action.end});
  }

  void perform(const TellNodesFailed& action) {
    nodes_.report(
        NodeFailed{action.end.attempt, action.may_restart, reporter_.verdict_so_far(action.end)});
  }
  void perform(const TellNodesSucceeded& action) { nodes_.report(NodeSucceeded{action.attempt}); }
  void perform(const TellNodesStopped& action) { nodes_.report(NodeStopped{action.attempt}); }

  void perform(const Finish& action) {
    compare_ranks(action.run_end);
    reporter_.begin_finish(action.run_end, place_);
    server_.reset();
    metrics_.reset();
    if (watch_) watch_->end();
    if (load_) load_->end();
    workers_.close();
    guard_.end();
    const auto refusals = store_.refusals();
    nodes_.close();
    store_.close();
    reporter_.finish(refusals);
    if (was_told_to_end()) drain_.stop_after_timeout();
    drain_.begin([this] { signals_.end(); });
  }

  bool was_told_to_end() const {
    const auto cause = reporter_.run_end().cause;
    return cause == RunEnd::Cause::kInterrupted || cause == RunEnd::Cause::kTimedOut ||
           cause == RunEnd::Cause::kHung || cause == RunEnd::Cause::kGuardLost;
  }

  const LaunchOptions& options_;
  const LaunchContext& context_;
  RunPlace place_;
  asio::io_context io_{1};
  RunOutput output_;
  OutputDrain drain_;
  RunReporter reporter_;
  NodeLink nodes_;
  StoreHost store_;
  RunSignals signals_;
  GuardWatch guard_{io_};
  SupervisorLoop loop_;
  std::optional<Error> attempt_error_;  // Why the attempt cannot start its workers.
  std::optional<Error> not_joined_;     // Why the nodes did not join.
  WorkerStacks stacks_;
  std::optional<std::chrono::milliseconds> hang_after_;
  FlightRecorders recorders_;
  NcclRas ras_;
  bool is_asking_ = false;
  RunCollectives collectives_;
  RunProgress progress_{output_, store_, workers_, collectives_};
  std::optional<ProgressWatch> watch_;  // With --hang-after.
  std::unique_ptr<RunServer> server_;
  std::unique_ptr<MetricsServer> metrics_;  // With --metrics-port.
  std::optional<LoadWatch> load_;           // With a report or a trace.
  WorkerPool workers_;                      // Last: its processes must end first.
};

}  // namespace

Result<RunEnd> run_launch(LaunchPlan& plan, RunFiles& files, const LaunchContext& context) {
  // Writing without a reader, or beyond a file size limit, must not kill the launcher.
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);
  // If the parent ignored SIGCHLD, the kernel would reap the workers itself.
  ::signal(SIGCHLD, SIG_DFL);
  allow_many_descriptors();
  try {
    return Driver(plan, files, context).run();
  } catch (const std::exception& error) {  // Asio's, or out of memory.
    return Error{ErrorKind::kSystem, error.what()};
  }
}

}  // namespace distrun
