// Supervisor decides what happens to the workers of a run: who is started, whose
// failure ends the run, when a signal is sent, when there is nothing left to do.
//
//     Supervisor supervisor(options);
//     perform(supervisor.start(now));
//     perform(supervisor.step(Exited{LocalRank(2), KilledBy{SIGSEGV}}, now));
//     timer.expires_at(*supervisor.next_deadline());      // then step(Tick{}, now)
//
// It only decides: no clock, no process, no descriptor inside.  The driver turns
// what the kernel tells into events, and actions into system calls.  The actions of
// a step are performed, in order, before the next event is told; only the answers to
// Spawn and CloseOutput may take longer.
//
//     running ── a worker fails, a signal, the time is over ──▶ stopping: SIGTERM to all
//      │   ▲                                                       │ grace over, or a second signal
//      │   └─── all have ended, a worker had failed, and ───┐      ▼
//      │        a restart is left: a new attempt            │   killing: SIGKILL to all
//      │ all have ended                                     │      │
//      ▼                                                    │      │
//     finished ◀──────────── all have ended, or cannot be killed ──┘
//
// Processes that the workers leak are killed before an attempt begins and before the run is over.
//
// A worker's end and the end of its output are two events.  One that has exited is
// not reaped until its output has ended too, so that what it left in its process
// group can still be signalled; output that stays open for longer than `leak_grace`
// is held by a leaked process: that is noted, the output closed, and the
// group killed as the worker is reaped.
//
// The first failure is the cause; ends that come later are consequences.
//
// Of several nodes (nodes.h) each has a supervisor.  Then there is one more phase, rendezvous:
// before an attempt, and after it until all other nodes are done too.  The nodes tell when an
// attempt begins, and how the run ended; a failure, a signal or a time-out here ends the attempt
// here at once, and is told to them.  Their verdict is waited for, but not for longer than
// `verdict_timeout`, nor against a further signal.
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

// Events: what has happened.
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
  bool held = false;  // It had to be closed by force: something else still had it open.
};
struct Interrupted {
  int signal;
};
struct Forwarded {  // A signal that is the workers' to handle.
  int signal;
};
struct SuspendAsked {};  // Ctrl-Z.
struct Continued {};     // After Suspend.
struct GuardLost {};     // Nobody would see to what a killed launcher leaves.
struct ReaderGone {};    // Nobody reads what the workers print any more.
struct OutputLost {      // What the workers write can be passed on no more.
  Error error;
};
struct StartOrdered {  // Of several nodes: all are there.
  int attempt = 0;
};
struct StopOrdered {  // Of several nodes: one has ended the attempt, this one or another.
  NodesVerdict verdict;
  bool is_last = true;  // No attempt follows.
};
struct FinishOrdered {  // Every node is done.
  NodesVerdict verdict;
};
struct Tick {};
using SupervisorEvent = std::variant<Spawned, SpawnFailed, Exited, OutputClosed, Interrupted,
                                     Forwarded, SuspendAsked, Continued, GuardLost, ReaderGone,
                                     OutputLost, StartOrdered, StopOrdered, FinishOrdered, Tick>;

// Actions: what is to be done.
struct BeginAttempt {  // A fresh store, fresh folders.  Every worker of the one before is reaped.
  int attempt;
};
struct Spawn {  // Answered by Spawned or SpawnFailed.
  LocalRank worker;
};
struct SendSignal {  // To the worker's process group.
  LocalRank worker;
  int signal;
};
struct Forward {  // To the worker itself: its children have not asked for the signal.
  LocalRank worker;
  int signal;
};
struct Suspend {};    // Stop this process.  Answered by Continued, when it has been continued.
struct CloseOutput {  // Read what is there, then no more.  Answered by OutputClosed.
  LocalRank worker;
};
struct Reap {  // Kill what is left of its process group, then take its end from the kernel.
  LocalRank worker;
};
struct KillLeakedProcesses {  // Every process that is still there of the attempt, with SIGKILL.
  std::chrono::milliseconds timeout;
};
struct TellFailedAttempt {  // Another one follows.
  RunEnd end;
};
struct TellNodesFailed {  // This node ends the attempt.
  RunEnd end;             // So far.
  bool may_restart = false;
};
struct TellNodesSucceeded {
  int attempt;
};
struct TellNodesStopped {  // Nothing of the attempt is left here.
  int attempt;
};
struct Finish {  // Comes once, and last.
  RunEnd run_end;
};
using Action = std::variant<BeginAttempt, Spawn, SendSignal, Forward, Suspend, CloseOutput, Reap,
                            KillLeakedProcesses, TellFailedAttempt, TellNodesFailed,
                            TellNodesSucceeded, TellNodesStopped, Finish>;
using Actions = std::vector<Action>;

class Supervisor {
 public:
  struct Options {
    int workers = 1;
    int max_restarts = 0;  // Attempts after the first.
    int nodes = 1;         // Of the run; this one is
    int node = 0;
    std::chrono::milliseconds shutdown_timeout = std::chrono::seconds(30);  // SIGTERM to SIGKILL.
    std::chrono::milliseconds kill_timeout = kWorkerKillTimeout;            // SIGKILL to giving up.
    std::chrono::milliseconds leaked_processes_timeout = kLeakedProcessesTimeout;
    std::chrono::milliseconds leak_grace = std::chrono::seconds(2);  // Exit to the end of output.
    std::chrono::milliseconds verdict_timeout = std::chrono::seconds(20);  // Of the other nodes.
    std::optional<std::chrono::milliseconds> timeout;                      // Of the whole run.
    // A second signal within this is the first one once more: `timeout` and session managers
    // signal a process and its group.
    std::chrono::milliseconds same_signal = std::chrono::milliseconds(100);
  };

  // Requires at least one worker.
  explicit Supervisor(const Options& options);

  // The first actions.  Called once, before step().
  Actions start(TimePoint now);

  // What `event` leads to.  An event that makes no sense (a worker exits twice) changes nothing.
  Actions step(const SupervisorEvent& event, TimePoint now);

  // When step(Tick{}, now) is to be called, if nothing happens before.
  std::optional<TimePoint> next_deadline() const;

 private:
  enum class Phase { kRendezvous, kRunning, kStopping, kKilling, kFinished };
  enum class State {
    kWaiting,   // Not started yet.
    kStarting,  // Spawn has been asked for.
    kRunning,
    kExited,  // Its end is known; not reaped, because its output is still open.
    kGone,
  };
  struct Worker {
    State state = State::kWaiting;
    bool output_open = false;
    std::optional<TimePoint> output_deadline;  // Where kExited, until CloseOutput.
    std::vector<int> forwards;                 // Where kStarting: signals that wait for it.
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
  std::optional<NodesVerdict> verdict_;  // Of the nodes, on this attempt …
  bool verdict_is_last_ = false;         // … and no other follows.
  bool may_leave_ = false;               // Nobody needs this node any more.
  bool told_nodes_ = false;              // What ends the attempt here; their verdict is to come.
  int stop_signal_ = SIGTERM;            // What workers get in kStopping.
  int interrupts_ = 0;
  std::optional<TimePoint> last_interrupt_;
  std::optional<TimePoint> run_deadline_;     // Of all attempts.
  std::optional<TimePoint> deadline_;         // Of the phase.
  std::optional<TimePoint> suspended_;        // Since.
  std::optional<TimePoint> last_suspension_;  // Its end.
  bool suspension_is_due_ = false;            // When the worker that is being started is there.
  Actions actions_;                           // Of the step under way.
};

}  // namespace distrun
