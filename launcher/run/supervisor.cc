#include "launcher/run/supervisor.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "common/deadline.h"

namespace distrun {

Supervisor::Supervisor(const Options& options)
    : options_(options), workers_(static_cast<std::size_t>(options.workers)) {
  run_end_.workers.resize(workers_.size());
}

Actions Supervisor::start(TimePoint now) {
  if (is_among_others()) {
    phase_ = Phase::kRendezvous;
    return {};
  }
  if (options_.timeout) run_deadline_ = deadline_after(*options_.timeout, now);
  begin_attempt();
  return std::exchange(actions_, {});
}

Actions Supervisor::step(const SupervisorEvent& event, TimePoint now) {
  if (phase_ == Phase::kFinished) return {};
  std::visit([&](const auto& happened) { handle(happened, now); }, event);
  go_on_if_all_gone(now);
  return std::exchange(actions_, {});
}

std::optional<TimePoint> Supervisor::next_deadline() const {
  if (phase_ == Phase::kFinished || suspended_) return std::nullopt;
  std::optional<TimePoint> next = deadline_;
  if (reminder_ && phase_ == Phase::kStopping)
    next = std::min(*reminder_, next.value_or(*reminder_));
  for (const Worker& worker : workers_) {
    if (!worker.output_deadline) continue;
    next = next ? std::min(*next, *worker.output_deadline) : *worker.output_deadline;
  }
  return next;
}

// Workers start one after the other: a failed start leaves little to undo, and other events are
// handled in between.
void Supervisor::handle(const Spawned& event, TimePoint now) {
  Worker& worker = at(event.worker);
  if (worker.state != State::kStarting) return;
  worker.state = State::kRunning;
  worker.output_open = true;
  outcome(event.worker).started = true;
  for (const int signal : std::exchange(worker.forwards, {})) {
    actions_.push_back(Forward{event.worker, signal});
  }
  if (suspension_is_due_) suspend(now);
  if (phase_ != Phase::kRunning) {  // The run was stopped while this worker started.
    actions_.push_back(
        SendSignal{event.worker, phase_ == Phase::kStopping ? stop_signal_ : SIGKILL});
    return;
  }
  const int next = event.worker.value() + 1;
  if (next < static_cast<int>(workers_.size())) spawn(LocalRank(next));
}

void Supervisor::handle(const SpawnFailed& event, TimePoint now) {
  Worker& worker = at(event.worker);
  if (worker.state != State::kStarting) return;
  worker.state = State::kGone;
  if (suspension_is_due_) suspend(now);
  if (phase_ != Phase::kRunning) return;
  run_end_.culprit = event.worker;
  run_end_.error = event.error;
  stop(RunEnd::Cause::kSpawnFailed, now);
}

void Supervisor::handle(const Exited& event, TimePoint now) {
  Worker& worker = at(event.worker);
  if (worker.state != State::kRunning) return;
  worker.state = State::kExited;
  worker.output_deadline = now + options_.leak_grace;
  outcome(event.worker).end = event.end;
  if (!succeeded(event.end)) run_end_.failures.push_back(event.worker);
  if (phase_ == Phase::kRunning && !succeeded(event.end)) {
    run_end_.culprit = event.worker;
    stop(RunEnd::Cause::kWorkerFailed, now);
  }
  if (!worker.output_open) reap(event.worker);
}

void Supervisor::handle(const OutputClosed& event, TimePoint) {
  Worker& worker = at(event.worker);
  if (!std::exchange(worker.output_open, false)) return;
  if (worker.state != State::kExited) return;
  outcome(event.worker).leaked = event.held;
  reap(event.worker);
}

void Supervisor::handle(const Interrupted& event, TimePoint now) {
  const bool same = last_interrupt_ && now - *last_interrupt_ < options_.same_signal;
  if (same) return;
  last_interrupt_ = now;
  last_signal_ = event.signal;
  ++interrupts_;
  if (decides_the_end()) {
    run_end_.signal = event.signal;
    stop(RunEnd::Cause::kInterrupted, now, event.signal);
  } else if (phase_ == Phase::kRendezvous) {  // Do not wait for the other nodes.
    finish();
  } else if (phase_ == Phase::kStopping && interrupts_ >= 2) {
    kill(now);
  }
}

void Supervisor::handle(const Forwarded& event, TimePoint) {
  for_each([&](LocalRank index, Worker& worker) {
    if (worker.state == State::kRunning) actions_.push_back(Forward{index, event.signal});
    if (worker.state == State::kStarting) worker.forwards.push_back(event.signal);
  });
}

// Waits for a worker that is starting, which would otherwise continue to run.
void Supervisor::handle(const SuspendAsked&, TimePoint now) {
  if (suspended_ || (last_suspension_ && now - *last_suspension_ < options_.same_signal)) return;
  suspension_is_due_ = std::any_of(workers_.begin(), workers_.end(), [](const Worker& worker) {
    return worker.state == State::kStarting;
  });
  if (!suspension_is_due_) suspend(now);
}

void Supervisor::suspend(TimePoint now) {
  suspension_is_due_ = false;
  suspended_ = now;
  signal_all(SIGSTOP);
  actions_.push_back(Suspend{});
}

// Suspended time does not count.
void Supervisor::handle(const Continued&, TimePoint now) {
  if (!suspended_) return;
  const auto spent = now - *suspended_;
  suspended_.reset();
  last_suspension_ = now;  // Ignores a SIGTSTP that came with the first.
  for (auto* deadline : {&run_deadline_, &deadline_, &reminder_}) {
    if (*deadline) *deadline = postponed(**deadline, spent);
  }
  for_each([&](LocalRank, Worker& worker) {
    if (worker.output_deadline) worker.output_deadline = postponed(*worker.output_deadline, spent);
  });
  signal_all(SIGCONT);
}

void Supervisor::handle(const GuardLost&, TimePoint now) {
  if (decides_the_end()) stop(RunEnd::Cause::kGuardLost, now);
  if (phase_ == Phase::kStopping) kill(now);
}

// The run ends like any program in `…
// head`. Both outputs may close, but only one signal is sent.
void Supervisor::handle(const ReaderGone&, TimePoint now) {
  if (!decides_the_end()) return;
  run_end_.signal = SIGPIPE;
  stop(RunEnd::Cause::kInterrupted, now);
}

void Supervisor::handle(const OutputLost& event, TimePoint now) {
  if (!decides_the_end()) return;
  run_end_.error = event.error;
  stop(RunEnd::Cause::kOutputLost, now);
}

// Reading stacks takes seconds, which do not count as time to end.
void Supervisor::handle(const StacksShown&, TimePoint now) {
  if (phase_ == Phase::kStopping) begin_grace(now);
}

void Supervisor::handle(const Hung&, TimePoint now) {
  if (phase_ == Phase::kRunning) stop(RunEnd::Cause::kHung, now);
}

void Supervisor::handle(const StartOrdered& event, TimePoint now) {
  if (phase_ != Phase::kRendezvous) return;
  if (told_nodes_) {
    // The report crossed this order and was about the previous attempt: send it again.
    if (event.attempt <= run_end_.attempt) return;
    run_end_.attempt = event.attempt;
    tell_nodes();
    return continue_rendezvous(now);
  }
  run_end_.verdict = verdict_;
  if (event.attempt > 0) actions_.push_back(TellFailedAttempt{run_end_});
  // The wait for other nodes does not count towards --timeout.
  if (options_.timeout && !run_deadline_) run_deadline_ = deadline_after(*options_.timeout, now);
  reset_to(event.attempt);
  begin_attempt();
}

void Supervisor::handle(const StopOrdered& event, TimePoint now) {
  if (verdict_ && verdict_is_last_) return;
  verdict_ = event.verdict;
  verdict_is_last_ = event.is_last;
  told_nodes_ = false;
  // Node 0 leaves last, because it has the store and the connections.
  may_leave_ = event.is_last && options_.node != 0;
  if (phase_ == Phase::kRunning) {
    const int signal = event.verdict.signal;
    stop(RunEnd::Cause::kOtherNode, now, signal != 0 ? signal : SIGTERM);
  } else if (phase_ == Phase::kRendezvous) {
    actions_.push_back(TellNodesStopped{run_end_.attempt});
    continue_rendezvous(now);
  }
}

void Supervisor::handle(const FinishOrdered& event, TimePoint now) {
  verdict_ = event.verdict;
  verdict_is_last_ = may_leave_ = true;
  if (phase_ == Phase::kRendezvous) continue_rendezvous(now);
}

void Supervisor::handle(const Tick&, TimePoint now) {
  for_each([&](LocalRank index, Worker& worker) {
    if (!worker.output_deadline || now < *worker.output_deadline) return;
    worker.output_deadline.reset();
    actions_.push_back(CloseOutput{index});
  });
  if (!deadline_ || now < *deadline_) return tell_still_running(now);
  switch (phase_) {
    case Phase::kRendezvous:
      if (!decides_the_end()) return finish();
      return stop(RunEnd::Cause::kTimedOut, now);
    case Phase::kRunning:
      return stop(RunEnd::Cause::kTimedOut, now);
    case Phase::kStopping:
      return kill(now);
    case Phase::kKilling:
      return give_up();
    case Phase::kFinished:
      return;
  }
}

void Supervisor::begin_attempt() {
  phase_ = Phase::kRunning;
  deadline_ = run_deadline_;
  actions_.push_back(BeginAttempt{run_end_.attempt});
  spawn(LocalRank(0));
}

void Supervisor::reset_to(int attempt) {
  workers_.assign(workers_.size(), {});
  run_end_ = {};
  run_end_.attempt = attempt;
  run_end_.workers.resize(workers_.size());
  verdict_.reset();
  verdict_is_last_ = may_leave_ = told_nodes_ = false;
}

// True if the attempt failed and another may follow.
bool Supervisor::restart_is_due() const {
  if (verdict_) return !verdict_is_last_;
  const bool failed =
      run_end_.cause == RunEnd::Cause::kWorkerFailed || run_end_.cause == RunEnd::Cause::kHung;
  return (phase_ == Phase::kStopping || phase_ == Phase::kKilling) && failed &&
         run_end_.attempt < options_.max_restarts;
}

bool Supervisor::decides_the_end() const {
  if (phase_ == Phase::kRendezvous) return !told_nodes_ && !verdict_is_last_;
  return phase_ == Phase::kRunning || restart_is_due();
}

// The first cause of the end counts, unless another attempt was to follow.
void Supervisor::stop(RunEnd::Cause cause, TimePoint now, int signal) {
  run_end_.cause = cause;
  const bool blames = cause == RunEnd::Cause::kWorkerFailed || cause == RunEnd::Cause::kSpawnFailed;
  if (!blames) run_end_.culprit.reset();
  if (is_among_others() && cause != RunEnd::Cause::kOtherNode) tell_nodes();
  if (phase_ == Phase::kRendezvous) return continue_rendezvous(now);
  if (phase_ == Phase::kKilling) return;
  const bool is_new_signal = interrupts_ > 0 && phase_ != Phase::kStopping;
  phase_ = Phase::kStopping;
  stop_signal_ = signal;
  begin_grace(now);
  for_each([](LocalRank, Worker& worker) {
    if (worker.state == State::kWaiting) worker.state = State::kGone;
  });
  if (cause != RunEnd::Cause::kInterrupted || is_new_signal) show_stacks(cause);
  signal_all(signal);
}

void Supervisor::show_stacks(RunEnd::Cause cause) {
  const bool has_waited = cause == RunEnd::Cause::kTimedOut || cause == RunEnd::Cause::kHung;
  const int status = verdict_ ? verdict_->status : 0;
  if (has_waited || status == kExitTimedOut || status == kExitHung) {
    actions_.push_back(ShowStacks{});
  } else if (cause == RunEnd::Cause::kInterrupted || status == 128 + SIGINT ||
             status == 128 + SIGTERM || status == 128 + SIGHUP) {
    actions_.push_back(ShowStacks{.prints = false});
  }
}

void Supervisor::begin_grace(TimePoint now) {
  deadline_ = deadline_after(options_.shutdown_timeout, now);
  reminder_ = now + options_.first_reminder;
}

// A verdict that orders another attempt is no longer valid.
void Supervisor::tell_nodes() {
  verdict_.reset();
  told_nodes_ = true;
  actions_.push_back(TellNodesFailed{run_end_, run_end_.cause == RunEnd::Cause::kWorkerFailed});
}

void Supervisor::tell_still_running(TimePoint now) {
  if (phase_ != Phase::kStopping || !reminder_ || now < *reminder_) return;
  reminder_ = now + options_.reminder_period;
  TellStillRunning still;
  if (*deadline_ != TimePoint::max()) {
    still.until_kill = std::chrono::ceil<std::chrono::milliseconds>(*deadline_ - now);
  }
  for_each([&](LocalRank index, const Worker& worker) {
    if (worker.state == State::kRunning) still.workers.push_back(index);
  });
  if (interrupts_ > 0) still.signal = last_signal_;
  if (!still.workers.empty()) actions_.push_back(std::move(still));
}

void Supervisor::kill(TimePoint now) {
  phase_ = Phase::kKilling;
  deadline_ = now + options_.kill_timeout;
  signal_all(SIGKILL);
}

// A process that SIGKILL does not end is stuck in a system call.
void Supervisor::give_up() {
  deadline_.reset();
  for_each([&](LocalRank index, Worker& worker) {
    if (worker.state != State::kRunning) return;
    if (worker.output_open) actions_.push_back(CloseOutput{index});
    worker.state = State::kGone;
  });
}

void Supervisor::spawn(LocalRank worker) {
  at(worker).state = State::kStarting;
  actions_.push_back(Spawn{worker});
}

void Supervisor::signal_all(int signal) {
  for_each([&](LocalRank index, Worker& worker) {
    if (worker.state == State::kRunning || worker.state == State::kExited) {
      actions_.push_back(SendSignal{index, signal});
    }
  });
}

void Supervisor::reap(LocalRank worker) {
  at(worker).state = State::kGone;
  at(worker).output_deadline.reset();
  actions_.push_back(Reap{worker});
}

void Supervisor::go_on_if_all_gone(TimePoint now) {
  if (phase_ == Phase::kRendezvous || phase_ == Phase::kFinished) return;
  const bool all_gone = std::all_of(workers_.begin(), workers_.end(), [](const Worker& worker) {
    return worker.state == State::kGone;
  });
  if (!all_gone || suspended_) return;
  // Timeout 0: kill_timeout has already passed.
  const bool stuck =
      std::any_of(run_end_.workers.begin(), run_end_.workers.end(),
                  [](const WorkerOutcome& outcome) { return outcome.started && !outcome.end; });
  actions_.push_back(KillLeakedProcesses{stuck ? std::chrono::milliseconds(0)
                                               : options_.leaked_processes_timeout});
  if (is_among_others()) return begin_rendezvous(now, stuck);
  if (restart_is_due() && !stuck && (!run_deadline_ || now < *run_deadline_)) {
    actions_.push_back(TellFailedAttempt{run_end_});
    reset_to(run_end_.attempt + 1);
    return begin_attempt();
  }
  finish();
}

// Reports success, or that no process of the attempt is left here. With a stuck process it reports
// neither, so no attempt follows.
void Supervisor::begin_rendezvous(TimePoint now, bool stuck) {
  if (phase_ == Phase::kRunning) {
    actions_.push_back(TellNodesSucceeded{run_end_.attempt});
  } else if (!stuck) {
    actions_.push_back(TellNodesStopped{run_end_.attempt});
  }
  phase_ = Phase::kRendezvous;
  continue_rendezvous(now);
}

// Only the wait for node 0's verdict on a failure has a timeout here. Other waits end with the
// other nodes or their connections.
void Supervisor::continue_rendezvous(TimePoint now) {
  if (may_leave_) return finish();
  deadline_ = run_deadline_;
  if (verdict_is_last_) deadline_.reset();
  if (told_nodes_) {
    const bool was_signalled = run_end_.cause == RunEnd::Cause::kInterrupted;
    deadline_ = now + (was_signalled ? options_.signal_verdict_timeout : options_.verdict_timeout);
  }
}

// The verdict counts, even if this node ended the attempt for another reason.
void Supervisor::finish() {
  phase_ = Phase::kFinished;
  if (verdict_ && verdict_is_last_) {
    run_end_.verdict = verdict_;
    const bool own = verdict_->node == options_.node && run_end_.cause != RunEnd::Cause::kSucceeded;
    if (verdict_->status == 0) {
      run_end_.cause = RunEnd::Cause::kSucceeded;
    } else if (!own) {
      run_end_.cause = RunEnd::Cause::kOtherNode;
    }
    if (verdict_->status == 0 || !own) run_end_.culprit.reset();
  }
  actions_.push_back(Finish{run_end_});
}

template <class Do>
void Supervisor::for_each(Do&& act) {
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    act(LocalRank(static_cast<int>(i)), workers_[i]);
  }
}

}  // namespace distrun
