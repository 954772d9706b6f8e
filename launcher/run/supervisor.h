// Supervisor decides which workers to start, which failure ends the run, when to send signals, and
// when the run has ended.
//
//     Supervisor supervisor(options);
//     perform(supervisor.start(now));
//     perform(supervisor.step(Exited{LocalRank(2), KilledBy{SIGSEGV}}, now));
//     timer.expires_at(*supervisor.next_deadline());      // then step(Tick{}, now)
//
// It has no clock, process or descriptor. The driver creates the events and performs the actions of
// each step, in order, before the next event. Only answers to Spawn and CloseOutput may come later.
//
//     running ── a worker fails, a hang, a signal, a timeout ─▶ stopping: SIGTERM to all
//      │   ▲                                                       │ grace over, or a second signal
//      │   └─── all have ended, it failed or hung, and ─────┐      ▼
//      │        a restart is left: a new attempt            │   killing: SIGKILL to all
//      │ all have ended                                     │      │
//      ▼                                                    │      │
//     finished ◀──────────── all have ended, or cannot be killed ──┘
//
// Leaked processes are killed before the next attempt, and before the run ends.
//
// A worker is reaped after two events, its exit and the end of its output; until then its process
// group can be signalled. If a leaked process holds the output open longer than `leak_grace`, the
// leak is recorded, the output closed, and the group killed.
//
// The first failure is the cause.
//
// With several nodes (nodes.h), attempts start and end with another phase, rendezvous, in which
// each node's supervisor waits for the others. Node 0 orders the start and decides how the run
// ended. A failure, signal or timeout here ends the attempt here at once; the wait for the verdict
// ends after `verdict_timeout` or at another signal.
#pragma once

#include <chrono>
#include <csignal>
#include <optional>
#include <variant>
#include <vector>

#include "common/rank.h"
#include "distrun/process_end.h"
#include "distrun/result.h"
#include "launcher/outcome/run_end.h"
#include "launcher/plan/options.h"

namespace distrun {

using TimePoint = std::chrono::steady_clock::time_point;

// Events.
struct Spawned {
  LocalRank worker;
};
struct SpawnFailed {
  LocalRank worker;
  Error error;
};
struct Exited {
  LocalRank worker;
  ProcessEnd end;
};
struct OutputClosed {  // All of the worker's output has been read.
  LocalRank worker;
  bool held = false;  // Another process held it open; it was closed.
};
struct Interrupted {
  int signal;
};
struct Forwarded {  // A signal for the workers.
  int signal;
};
struct SuspendAsked {};  // Ctrl-Z.
struct Continued {};     // After Suspend.
struct GuardLost {};
struct ReaderGone {};  // A console's reader has closed.
struct OutputLost {    // The workers' output can no longer be written.
  Error error;
};
struct Hung {};        // No worker has made progress for --hang-after.
struct StartOrdered {  // With several nodes: all have joined.
  int attempt = 0;
};
struct StopOrdered {  // With several nodes: this or another node has ended the attempt.
  NodesVerdict verdict;
  bool is_last = true;  // No attempt follows.
};
struct FinishOrdered {  // All nodes have ended.
  NodesVerdict verdict;
};
struct StacksShown {};  // After ShowStacks, and the signals that follow it.
struct Tick {};
using SupervisorEvent =
    std::variant<Spawned, SpawnFailed, Exited, OutputClosed, Interrupted, Forwarded, SuspendAsked,
                 Continued, GuardLost, ReaderGone, OutputLost, Hung, StartOrdered, StopOrdered,
                 FinishOrdered, StacksShown, Tick>;

// Actions.
struct BeginAttempt {  // Fresh store and folders. All previous workers are reaped.
  int attempt;
};
struct Spawn {  // Spawned or SpawnFailed follows.
  LocalRank worker;
};
struct SendSignal {  // To the worker's process group.
  LocalRank worker;
  int signal;
};
struct Forward {  // To the worker alone: its children may not handle the signal.
  LocalRank worker;
  int signal;
};
struct Suspend {};    // Stop this process. Continued follows.
struct CloseOutput {  // Read what is available, then close. OutputClosed follows.
  LocalRank worker;
};
struct Reap {  // Kill the rest of its process group, then reap it.
  LocalRank worker;
};
// Reads where workers are, before the first signal. StacksShown follows.
struct ShowStacks {
  bool prints = true;  // At once. Otherwise, only the summary tells it.
};
struct KillLeakedProcesses {  // SIGKILL to every remaining process.
  std::chrono::milliseconds timeout;
};
struct TellStillRunning {  // Workers that got a signal to end.
  std::vector<LocalRank> workers;
  std::optional<std::chrono::milliseconds> until_kill;  // nullopt: never.
  std::optional<int> signal;                            // The next one kills them.
};
struct TellFailedAttempt {  // Another attempt follows.
  RunEnd end;
};
struct TellNodesFailed {
  RunEnd end;  // May be incomplete.
  bool may_restart = false;
};
struct TellNodesSucceeded {
  int attempt;
};
struct TellNodesStopped {  // No process of the attempt remains here.
  int attempt;
};
struct Finish {  // Once, and last.
  RunEnd run_end;
};
using Action = std::variant<BeginAttempt, Spawn, SendSignal, Forward, Suspend, CloseOutput, Reap,
                            ShowStacks, KillLeakedProcesses, TellStillRunning, TellFailedAttempt,
                            TellNodesFailed, TellNodesSucceeded, TellNodesStopped, Finish>;
using Actions = std::vector<Action>;

class Supervisor {
 public:
  struct Options {
    int workers = 1;
    int max_restarts = 0;  // Attempts after the first.
    int nodes = 1;         // `node` is this node's rank.
    int node = 0;
    std::chrono::milliseconds shutdown_timeout = std::chrono::seconds(30);  // SIGTERM to SIGKILL.
    // From SIGTERM to the first TellStillRunning, and between later ones.
    std::chrono::milliseconds first_reminder = std::chrono::seconds(1);
    std::chrono::milliseconds reminder_period = std::chrono::seconds(10);
    std::chrono::milliseconds kill_timeout = kWorkerKillTimeout;  // For SIGKILL to take effect.
    std::chrono::milliseconds leaked_processes_timeout = kLeakedProcessesTimeout;
    std::chrono::milliseconds leak_grace = std::chrono::seconds(2);  // From exit to end of output.
    std::chrono::milliseconds verdict_timeout = std::chrono::seconds(20);  // For the other nodes.
    // The same after a signal: this node does not wait for one that does not answer.
    std::chrono::milliseconds signal_verdict_timeout = std::chrono::seconds(4);
    std::optional<std::chrono::milliseconds> timeout;  // Of the whole run.
    // A second signal within this time is the same one: `timeout` and session managers signal a
    // process and its group.
    std::chrono::milliseconds same_signal = std::chrono::milliseconds(100);
  };

  // Requires at least one worker.
  explicit Supervisor(const Options& options);

  // Returns the first actions. Call it once.
  Actions start(TimePoint now);

  // Returns the resulting actions. Ignores events that do not fit, such as a second exit of a
  // worker.
  Actions step(const SupervisorEvent& event, TimePoint now);

  // When to call step(Tick{}, now).
  std::optional<TimePoint> next_deadline() const;

 private:
  enum class Phase { kRendezvous, kRunning, kStopping, kKilling, kFinished };
  enum class State {
    kWaiting,   // Not started yet.
    kStarting,  // After Spawn, before the answer.
    kRunning,
    kExited,  // Not reaped, because its output is still open.
    kGone,
  };
  struct Worker {
    State state = State::kWaiting;
    bool output_open = false;
    std::optional<TimePoint> output_deadline;  // In kExited, until CloseOutput.
    std::vector<int> forwards;                 // In kStarting: signals to forward later.
  };

  void handle(const Spawned& event, TimePoint now);
  void handle(const SpawnFailed& event, TimePoint now);
  void handle(const Exited& event, TimePoint now);
  void handle(const OutputClosed& event, TimePoint now);
  void handle(const Interrupted& event, TimePoint now);
  void handle(const Forwarded& event, TimePoint now);
  void handle(const SuspendAsked& event, TimePoint now);
  void handle(const Continued& event, TimePoint now);
  void handle(const GuardLost& event, TimePoint now);
  void handle(const ReaderGone& event, TimePoint now);
  void handle(const OutputLost& event, TimePoint now);
  void handle(const Hung& event, TimePoint now);
  void handle(const StacksShown& event, TimePoint now);
  void handle(const StartOrdered& event, TimePoint now);
  void handle(const StopOrdered& event, TimePoint now);
  void handle(const FinishOrdered& event, TimePoint now);
  void handle(const Tick& event, TimePoint now);

  void begin_attempt();
  void reset_to(int attempt);
  bool is_among_others() const { return options_.nodes > 1; }
  bool restart_is_due() const;
  bool decides_the_end() const;
  void tell_nodes();
  void begin_rendezvous(TimePoint now, bool stuck);
  void continue_rendezvous(TimePoint now);
  void finish();
  void suspend(TimePoint now);
  void stop(RunEnd::Cause cause, TimePoint now, int signal = SIGTERM);
  void show_stacks(RunEnd::Cause cause);
  void begin_grace(TimePoint now);
  void tell_still_running(TimePoint now);
  void kill(TimePoint now);
  void give_up();
  void spawn(LocalRank worker);
  void signal_all(int signal);
  void reap(LocalRank worker);
  void go_on_if_all_gone(TimePoint now);

  Worker& at(LocalRank worker) { return workers_[static_cast<std::size_t>(worker.value())]; }
  WorkerOutcome& outcome(LocalRank worker) {
    return run_end_.workers[static_cast<std::size_t>(worker.value())];
  }
  template <class Do>
  void for_each(Do&& act);

  Options options_;
  Phase phase_ = Phase::kRunning;
  std::vector<Worker> workers_;
  RunEnd run_end_;
  std::optional<NodesVerdict> verdict_;  // On this attempt.
  bool verdict_is_last_ = false;         // No other attempt follows.
  bool may_leave_ = false;               // No other node needs this one.
  bool told_nodes_ = false;              // The end is reported; the verdict has not come.
  int stop_signal_ = SIGTERM;            // For workers in kStopping.
  int interrupts_ = 0, last_signal_ = 0;
  std::optional<TimePoint> last_interrupt_;
  std::optional<TimePoint> run_deadline_;     // For all attempts.
  std::optional<TimePoint> deadline_;         // Of phase_.
  std::optional<TimePoint> reminder_;         // When TellStillRunning is due.
  std::optional<TimePoint> suspended_;        // When the suspension started.
  std::optional<TimePoint> last_suspension_;  // When the last suspension ended.
  bool suspension_is_due_ = false;            // Waits for the worker that is starting.
  Actions actions_;                           // Of the present step.
};

}  // namespace distrun
