#include "launcher/run/driver.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <deque>
#include <memory>
#include <optional>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "common/os/unique_fd.h"
#include "distrun/store_address.h"
#include "distrun/store_server.h"
#include "launcher/nodes/listen_address.h"
#include "launcher/nodes/make_nodes.h"
#include "launcher/outcome/worker_error.h"
#include "launcher/plan/worker_environment.h"
#include "launcher/process/child_reaper.h"
#include "launcher/process/oom_kills.h"
#include "launcher/process/process_stat.h"
#include "launcher/process/worker_process.h"
#include "launcher/report/summary.h"
#include "launcher/report/worker_table.h"
#include "launcher/run/run_output.h"
#include "launcher/run/run_signals.h"
#include "launcher/run/supervisor.h"

namespace distrun {

namespace asio = boost::asio;
using asio::posix::stream_descriptor;
using boost::system::error_code;

namespace {

struct Worker {
  WorkerProcess process;
  std::optional<stream_descriptor> exit;  // Its pidfd.
  bool reaped = false;
  TimePoint started;
  std::optional<ProcessEnd> end;
};

class Driver {
 public:
  Driver(LaunchPlan& plan, RunFiles& files, const LaunchContext& context)
      : plan_(plan),
        files_(files),
        context_(context),
        output_(io_, plan, files.folder, {.out = context.out, .err = context.err},
                [this](const RunOutput::Lost& lost) { output_lost(lost); }),
        supervisor_({.workers = static_cast<int>(plan.workers.size()),
                     .max_restarts = plan.options.max_restarts,
                     .nodes = plan.options.nnodes,
                     .node = plan.options.node_rank,
                     .shutdown_timeout = plan.options.shutdown_timeout,
                     .timeout = plan.options.timeout}) {
    report_.workers.resize(plan.workers.size());
    if (plan.options.nnodes > 1) nodes_ = make_nodes(io_, plan, context.host, nodes_handlers());
  }

  // Where an exception ends the run, nothing of it is to stay behind.
  ~Driver() {
    if (started_ && !finished_) kill_leaked_processes(std::chrono::seconds(5));
  }
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  Result<RunEnd> run() {
    signals_.begin(
        context_.lifeline.blocked);  // Before there is anything that a signal could leak.
    reaper_.begin();
    watch_guard();
    place_.error_folder = files_.folder;
    if (const auto opened = open_store(); !opened) return opened.error();
    null_.reset(::open("/dev/null", O_RDWR | O_CLOEXEC));
    if (!null_) return Error::from_errno("open /dev/null");
    tell(RunStarted{::getpid(), store_text()});
    started_ = true;
    perform(supervisor_.start(now()));
    wait_for_deadline();
    if (nodes_.nodes) nodes_.nodes->join();
    io_.run();
    if (not_joined_) return *not_joined_;
    if (!finished_) return Error{ErrorKind::kSystem, "bug: the event loop ended before the run"};
    // What comes now comes too late, and is not to end this process in another way.
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, nullptr);
    return report_.run_end;
  }

 private:
  static TimePoint now() { return std::chrono::steady_clock::now(); }

  Worker& at(LocalRank worker) { return workers_[static_cast<std::size_t>(worker.value())]; }

  void tell(const RunEvent& event) {
    if (context_.on_event) output_.say(context_.on_event(event));
  }

  Result<void> open_store() {
    const LaunchOptions& options = plan_.options;
    if (files_.store) {
      place_.init_method = files_.store->url();
      return {};
    }
    place_.store_port = options.master_port;
    if (options.node_rank > 0) return {};  // It is node 0's.
    std::string host = options.master_addr;
    if (options.nnodes > 1) {
      auto found = listen_address(host, std::chrono::seconds(10));
      if (!found) return found.error();
      host = std::move(*found);
    }
    auto server = StoreServer::listen(io_, *table_,
                                      {.host = host,
                                       .port = options.master_port,
                                       .same_user = options.same_user,
                                       .on_node = nodes_.take});
    if (!server) return server.error();
    store_ = std::move(*server);
    place_.store_port = store_->port();
    return {};
  }

  std::string store_text() const {
    if (files_.store) return files_.store->url();
    if (store_) return store_->address();
    return StoreAddress{plan_.options.master_addr, plan_.options.master_port}.text();
  }

  NodesHandlers nodes_handlers() {
    return {.on_order =
                [this](const NodeOrder& order) {
                  std::visit([this](const auto& what) { obey(what); }, order);
                },
            .on_renew_store = [this](int) { renew_store(); },
            .on_error = [this](const Error& error) { end_alone(error); },
            .on_notice = [this](const std::string& text) { tell(NodeNotice{text}); }};
  }

  // Nothing was started: what is left to do is to say so.
  void end_alone(const Error& error) {
    if (finished_ || not_joined_) return;
    not_joined_ = error;
    RunEnd end;
    end.cause = RunEnd::Cause::kNotJoined;
    end.error = error;
    tell(RunEnded{end});
    reading_.expires_after(plan_.options.shutdown_timeout);
    reading_.async_wait([this](error_code canceled) {
      if (!canceled) io_.stop();
    });
    output_.when_drained([this] { io_.stop(); });
  }

  void obey(const StartNode& order) {
    place_ranks(plan_, {.rank_base = order.rank_base,
                        .world_size = order.world_size,
                        .role_rank_base = order.role_rank_base,
                        .role_world_size = order.role_world_size});
    happened(StartOrdered{order.attempt});
  }
  void obey(const StopNode& order) { happened(StopOrdered{order.verdict, order.is_last}); }
  void obey(const FinishNode& order) { happened(FinishOrdered{order.verdict}); }

  void renew_store() {
    auto fresh = std::make_unique<StoreTable>();
    store_->start_over(*fresh);
    table_ = std::move(fresh);
  }

  // An event that comes while the actions of another are performed waits for its turn.
  void happened(SupervisorEvent event) {
    if (not_joined_) return;
    events_.push_back(std::move(event));
    if (std::exchange(telling_, true)) return;
    while (!events_.empty()) {
      const SupervisorEvent next = std::move(events_.front());
      events_.pop_front();
      perform(supervisor_.step(next, now()));
    }
    telling_ = false;
    wait_for_deadline();
  }

  void perform(const Actions& actions) {
    for (const Action& action : actions) {
      std::visit([this](const auto& what) { perform(what); }, action);
    }
  }

  // Where it fails, so does the first start that follows.
  void perform(const BeginAttempt& action) {
    place_.attempt = action.attempt;
    retire_workers();
    output_.begin_attempt(action.attempt);
    workers_.resize(plan_.workers.size());
    report_.workers.assign(plan_.workers.size(), {});
    attempt_error_.reset();
    // Of several nodes, node 0 has renewed it before it told the first to start.
    if (action.attempt > 0 && !nodes_.nodes) {
      if (store_) {
        renew_store();
      } else if (const auto fresh = files_.store->start_over(); !fresh) {
        attempt_error_ = fresh.error();
      }
    }
    tell(AttemptStarted{action.attempt});
  }

  // They may still have an event on its way.
  void retire_workers() {
    auto retired = std::make_shared<std::vector<Worker>>(std::exchange(workers_, {}));
    asio::post(io_, [retired] {});
  }

  void perform(const Spawn& action) {
    const LocalRank worker = action.worker;
    // Told by way of the loop: between the starts of many workers the store answers those that are
    // there already, and a signal or a failure is seen.
    if (auto started = start(worker); !started) {
      asio::post(io_, [this, worker, error = started.error()] {
        happened(SpawnFailed{worker, error});
      });
    } else {
      tell(WorkerStarted{place_.attempt, worker, at(worker).process.pid});
      asio::post(io_, [this, worker] {
        happened(Spawned{worker});
        watch(worker);
      });
    }
  }

  void perform(const SendSignal& action) {
    signal_group(at(action.worker).process, action.signal);
    // A stopped process takes no signal but SIGKILL before it goes on.
    const bool stops = action.signal == SIGSTOP || action.signal == SIGKILL;
    if (!stops) signal_group(at(action.worker).process, SIGCONT);
  }

  void perform(const Forward& action) { signal_process(at(action.worker).process, action.signal); }

  void perform(const Pause&) {
    tell(RunSuspended{});
    ::raise(kSelfStop);  // Until the guard, who waits for this, or somebody else continues it.
    tell(RunContinued{});
    happened(Resumed{});
  }

  void perform(const CloseOutput& action) {
    const bool held = output_.close(action.worker);
    if (held) {
      tell(OutputLeaked{action.worker});
      // They are killed with their group; who is in another one is found when the attempt is over.
      const pid_t group = at(action.worker).process.pid;
      for (const LeakedProcess& one : members_of_group(group)) in_groups_.push_back(one);
    }
    happened(OutputClosed{action.worker, held});
  }

  void perform(const Reap& action) {
    Worker& worker = at(action.worker);
    end_group(worker.process);
    worker.reaped = true;
    worker.exit.reset();
  }

  void perform(const KillLeakedProcesses& action) {
    // Their output is cut off: a worker that could not be killed is still watched, too.
    for (Worker& worker : workers_) worker.exit.reset();
    report_.leaked_processes = kill_leaked_processes(action.timeout);
    auto& killed = report_.leaked_processes.killed;
    // Killed with their group, and perhaps not gone yet: such a one is in both.
    for (const LeakedProcess& one : std::exchange(in_groups_, {})) {
      const auto same = [&](const LeakedProcess& other) { return other.pid == one.pid; };
      if (std::none_of(killed.begin(), killed.end(), same)) killed.push_back(one);
    }
    if (!killed.empty()) tell(LeakedProcessesKilled{killed});
  }

  void perform(const TellFailedAttempt& action) {
    tell(AttemptFailed{action.end.attempt, action.end});
  }

  // The others print what is known now, so it is to be known.
  void perform(const TellNodesFailed& action) {
    if (action.end.culprit) {
      output_.take(*action.end.culprit);
      tell_output(*action.end.culprit);
    }
    look_for_memory(action.end);
    RunReport so_far = report_;
    so_far.run_end = action.end;
    nodes_.nodes->report(NodeFailed{action.end.attempt, action.may_restart,
                                    verdict_of(plan_, so_far, context_.host)});
  }
  void perform(const TellNodesSucceeded& action) {
    nodes_.nodes->report(NodeSucceeded{action.attempt});
  }
  void perform(const TellNodesStopped& action) {
    nodes_.nodes->report(NodeStopped{action.attempt});
  }

  // The run is over: what is left to do is to get rid of the output.
  void perform(const Finish& action) {
    report_.run_end = action.run_end;
    tell_why(action.run_end);
    for (const WorkerPlan& worker : plan_.workers) tell_output(worker.local_rank);
    finished_ = true;
    reaper_.end();
    guard_.reset();
    if (store_) {
      for (auto& closed : store_->status().closed) report_.refusals.push_back(closed.reason);
    }
    if (nodes_.nodes) nodes_.nodes->close();
    store_.reset();
    tell(RunEnded{action.run_end});
    if (context_.summary) output_.say(context_.summary(report_));
    // Who reads what workers have printed may take all the time there is, as with any program; but
    // a run that was told to end must end, also on a terminal that hangs.
    if (was_told_to_end()) {
      reading_.expires_after(plan_.options.shutdown_timeout);
      reading_.async_wait([this](error_code error) {
        if (!error) io_.stop();
      });
    }
    output_.when_drained([this] {
      reading_.cancel();
      signals_.end();
    });
  }

  bool was_told_to_end() const {
    const auto cause = report_.run_end.cause;
    return cause == RunEnd::Cause::kInterrupted || cause == RunEnd::Cause::kTimedOut ||
           cause == RunEnd::Cause::kGuardLost;
  }

  void tell_output(LocalRank worker) {
    WorkerReport& report = report_.workers[static_cast<std::size_t>(worker.value())];
    report.last_output = output_.last_output(worker);
    report.log_folder = output_.log_folder(worker);
  }

  Result<void> start(LocalRank local_rank) {
    if (attempt_error_) return *attempt_error_;
    const auto index = static_cast<std::size_t>(local_rank.value());
    const WorkerPlan& planned = plan_.workers[index];

    const auto output = output_.open(local_rank);
    if (!output) return output.error();
    const bool reads = local_rank == LocalRank(0) && context_.in >= 0;
    auto process = spawn_process({.executable = plan_.executable,
                                  .arguments = planned.arguments,
                                  .environment = worker_environment(plan_, planned, place_),
                                  .in = reads ? context_.in : null_.get(),
                                  .out = output->out.get(),
                                  .err = output->err.get()});
    if (!process) return process.error();

    Worker& worker = workers_[index];
    worker.process = std::move(*process);
    worker.started = now();
    report_.workers[index].pid = worker.process.pid;
    return {};
  }

  // From here on its output is passed on and its end is seen.
  void watch(LocalRank local_rank) {
    Worker& worker = at(local_rank);
    output_.watch(local_rank, [this, local_rank] { happened(OutputClosed{local_rank}); });
    worker.exit.emplace(io_, worker.process.pidfd.release());
    wait_for_exit(local_rank);
  }

  void wait_for_exit(LocalRank local_rank) {
    at(local_rank)
        .exit->async_wait(stream_descriptor::wait_read, [this, local_rank](error_code error) {
          if (error) return;
          Worker& worker = at(local_rank);
          const auto end = look_at_end(worker.process);
          const auto index = static_cast<std::size_t>(local_rank.value());
          report_.workers[index].run_time =
              std::chrono::duration_cast<std::chrono::milliseconds>(now() - worker.started);
          // Only another part of this process could have taken the end; there is none.
          const ProcessEnd how = end.value_or(ExitedWith{kExitInternal});
          worker.end = how;
          tell(WorkerEnded{place_.attempt, local_rank, worker.process.pid, how,
                           report_.workers[index].run_time});
          if (!succeeded(how)) take_error(local_rank);
          happened(Exited{local_rank, how});
        });
  }

  // Why it failed, while that is still to be had.
  void take_error(LocalRank local_rank) {
    const auto index = static_cast<std::size_t>(local_rank.value());
    WorkerReport& report = report_.workers[index];
    report.core_dumped = has_dumped_core(at(local_rank).process);
    WorkerError error = read_worker_error(error_file(plan_, place_, plan_.workers[index]));
    report.error = std::move(error.text);
    report.callstack = std::move(error.callstack);
  }

  void look_for_memory(const RunEnd& run_end) {
    for (const WorkerOutcome& worker : run_end.workers) {
      if (worker.end != ProcessEnd(KilledBy{SIGKILL})) continue;
      report_.out_of_memory = oom_evidence(oom_kills_, OomKills::read());
      break;
    }
  }

  // For who has started the launcher, and for the summary.
  void tell_why(const RunEnd& run_end) {
    look_for_memory(run_end);
    if (run_end.cause != RunEnd::Cause::kWorkerFailed) return;
    const auto culprit = static_cast<std::size_t>(run_end.culprit->value());
    const auto handed_on = hand_on_worker_error(error_file(plan_, place_, plan_.workers[culprit]),
                                                *run_end.workers[culprit].end, plan_.environment);
    if (!handed_on) report_.error_not_copied = handed_on.error().message;
  }

  void output_lost(const RunOutput::Lost& lost) {
    if (lost.reader_gone) return happened(ReaderGone{});
    happened(OutputLost{lost.error});
  }

  void signalled(RunSignals::Meaning meaning, int signal) {
    using Meaning = RunSignals::Meaning;
    if (finished_ || not_joined_) {
      // Told for the first time: nobody is waited for who reads.  Else the time is set already.
      if (meaning == Meaning::kEnd && !was_told_to_end()) io_.stop();
    } else if (meaning == Meaning::kEnd) {
      tell(SignalReceived{signal, /*forwarded=*/false});
      happened(Interrupted{signal});
    } else if (meaning == Meaning::kForward) {
      tell(SignalReceived{signal, /*forwarded=*/true});
      happened(Forwarded{signal});
    } else if (meaning == Meaning::kPause) {
      happened(PauseAsked{});
    } else {
      print_workers();
    }
  }

  void print_workers() {
    const auto sessions = count_sessions();
    std::vector<WorkerRow> rows;
    for (std::size_t i = 0; i < workers_.size(); ++i) {
      const Worker& worker = workers_[i];
      WorkerRow row{.rank = plan_.workers[i].rank, .pid = worker.process.pid, .end = worker.end};
      const auto so_far =
          std::chrono::duration_cast<std::chrono::milliseconds>(now() - worker.started);
      row.run_time = worker.end ? report_.workers[i].run_time : so_far;
      row.output_open = worker.end && !worker.reaped;
      if (row.pid > 0 && !row.end) row.stat = read_process_stat(row.pid);
      const auto session = worker.reaped ? sessions.end() : sessions.find(row.pid);
      if (session != sessions.end()) row.processes = session->second;
      rows.push_back(row);
    }
    output_.say(fmt::format("distrun: the workers of attempt {}:\n", place_.attempt) +
                worker_table(rows));
  }

  bool is_worker(pid_t pid) const {
    return std::any_of(workers_.begin(), workers_.end(), [pid](const Worker& worker) {
      return !worker.reaped && worker.process.pid == pid;
    });
  }

  void watch_guard() {
    const int lifeline =
        context_.lifeline.fd < 0 ? -1 : ::fcntl(context_.lifeline.fd, F_DUPFD_CLOEXEC, 0);
    if (lifeline < 0) return;
    guard_.emplace(io_, lifeline);
    guard_->async_wait(stream_descriptor::wait_read, [this](error_code error) {
      if (!error && !finished_) happened(GuardGone{});
    });
  }

  void wait_for_deadline() {
    const auto next = supervisor_.next_deadline();
    if (!next) {
      deadline_.cancel();
      waiting_ = false;
    } else if (deadline_.expiry() != *next || !waiting_) {
      waiting_ = true;
      deadline_.expires_at(*next);
      deadline_.async_wait([this](error_code error) {
        if (error) return;
        waiting_ = false;
        happened(Tick{});
      });
    }
  }

  LaunchPlan& plan_;
  RunFiles& files_;
  const LaunchContext& context_;
  RunPlace place_;
  asio::io_context io_{1};
  RunOutput output_;
  std::unique_ptr<StoreTable> table_ = std::make_unique<StoreTable>();
  MadeNodes nodes_;                     // Where there are several.
  std::optional<Error> not_joined_;     // Why they have not come together.
  std::unique_ptr<StoreServer> store_;  // Where the workers do not meet in a file; node 0's.
  UniqueFd null_;
  RunSignals signals_{io_, plan_.options, [this](RunSignals::Meaning meaning, int signal) {
                        signalled(meaning, signal);
                      }};
  ChildReaper reaper_{io_, [this](pid_t pid) { return is_worker(pid); }};
  asio::steady_timer deadline_{io_}, reading_{io_};
  std::optional<stream_descriptor> guard_;
  bool waiting_ = false;
  Supervisor supervisor_;
  std::deque<SupervisorEvent> events_;
  bool telling_ = false;
  bool started_ = false, finished_ = false;
  std::vector<Worker> workers_;
  std::vector<LeakedProcess> in_groups_;  // In workers' groups: they held output open.
  std::optional<Error> attempt_error_;
  OomKills oom_kills_ = OomKills::read();
  RunReport report_;
};

}  // namespace

Result<RunEnd> run_launch(LaunchPlan& plan, RunFiles& files, const LaunchContext& context) {
  // What is written to nobody, or beyond a limit on files, is an error of that write.
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);
  // Ignored, as some parents leave it, the kernel would reap the workers itself.
  ::signal(SIGCHLD, SIG_DFL);
  allow_many_descriptors();
  try {
    return Driver(plan, files, context).run();
  } catch (const std::exception& error) {  // Asio's, or out of memory.
    return Error{ErrorKind::kSystem, error.what()};
  }
}

}  // namespace distrun
