// The supervisor's invariants, in random runs.
#include <algorithm>
#include <csignal>
#include <random>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "launcher/run/supervisor.h"

namespace distrun {
namespace {

using std::chrono::seconds;

// Random runs: workers end on their own, by a signal or not at all; their output ends before, after
// or never; interrupts arrive at any time.
class RandomRun {
 public:
  explicit RandomRun(unsigned seed) : random_(seed), workers_(1 + random_() % 6) {}

  void run() {
    Supervisor::Options options{.workers = static_cast<int>(workers_.size())};
    if (chance(4)) options.timeout = seconds(50);
    if (chance(3)) options.max_restarts = static_cast<int>(random_() % 4);
    Supervisor supervisor(options);
    perform(supervisor.start(now_), supervisor);
    for (int turn = 0; !finished_; ++turn) {
      ASSERT_LT(turn, 2000) << "the run does not finish";
      now_ += std::chrono::milliseconds(random_() % 1000);
      const auto deadline = supervisor.next_deadline();
      if (deadline && now_ >= *deadline) {
        perform(supervisor.step(Tick{}, now_), supervisor);
      } else {
        happen(supervisor);
      }
      if (::testing::Test::HasFailure()) return;
    }
    EXPECT_TRUE(supervisor.step(Tick{}, now_).empty());
    check_run_end();
  }

 private:
  struct SimulatedWorker {
    bool running = false, output_open = false, reaped = false;
    bool ends_by_itself = false, heeds_sigterm = false, can_be_killed = true, leaks = false;
    std::optional<ProcessEnd> end;
  };

  bool chance(unsigned one_in) { return random_() % one_in == 0; }

  void happen(Supervisor& supervisor) {
    if (chance(60)) {
      interrupted_ = true;
      const SupervisorEvent event = chance(2) ? SupervisorEvent(Interrupted{SIGINT})
                                    : chance(2)
                                        ? SupervisorEvent(ReaderGone{})
                                        : SupervisorEvent(OutputLost{{ErrorKind::kSystem, "full"}});
      return perform(supervisor.step(event, now_), supervisor);
    }
    if (chance(60)) return perform(supervisor.step(Hung{}, now_), supervisor);
    if (starting_ && chance(2)) {
      return perform(supervisor.step(Spawned{*std::exchange(starting_, {})}, now_), supervisor);
    }
    if (!closing_.empty() && chance(2)) {
      const LocalRank worker = closing_.back();
      closing_.pop_back();
      const SupervisorEvent event = OutputClosed{worker, /*held=*/at(worker).leaks};
      return perform(supervisor.step(event, now_), supervisor);
    }
    const std::size_t index = random_() % workers_.size();
    SimulatedWorker& worker = workers_[index];
    const LocalRank rank(static_cast<int>(index));
    if (worker.running && starting_ != rank && worker.ends_by_itself && chance(4)) {
      exits(supervisor, rank, chance(3) ? ProcessEnd(ExitedWith{7}) : ProcessEnd(ExitedWith{0}));
    } else if (worker.output_open && starting_ != rank && !worker.leaks &&
               (!worker.running || chance(10))) {
      worker.output_open = false;
      perform(supervisor.step(OutputClosed{rank}, now_), supervisor);
    }
  }

  void exits(Supervisor& supervisor, LocalRank rank, const ProcessEnd& end) {
    SimulatedWorker& worker = at(rank);
    worker.running = false;
    worker.end = end;
    if (!succeeded(end) && !first_failure_ && !stopping_) first_failure_ = rank;
    perform(supervisor.step(Exited{rank, end}, now_), supervisor);
  }

  void perform(const Actions& actions, Supervisor& supervisor) {
    std::vector<std::pair<LocalRank, int>> signals;
    for (const Action& action : actions) {
      ASSERT_FALSE(finished_) << "action " << action.index() << " after the finish";
      if (const auto* spawn = std::get_if<Spawn>(&action)) {
        spawn_one(spawn->worker, supervisor);
      } else if (const auto* signal = std::get_if<SendSignal>(&action)) {
        ASSERT_FALSE(at(signal->worker).reaped) << "a signal to a process that is gone";
        stopping_ = true;
        signals.emplace_back(signal->worker, signal->signal);
      } else if (const auto* close = std::get_if<CloseOutput>(&action)) {
        ASSERT_TRUE(at(close->worker).output_open);
        at(close->worker).output_open = false;
        closing_.push_back(close->worker);
      } else if (const auto* reap = std::get_if<Reap>(&action)) {
        ASSERT_FALSE(at(reap->worker).running || at(reap->worker).reaped);
        ASSERT_FALSE(at(reap->worker).output_open);
        at(reap->worker).reaped = true;
      } else if (std::holds_alternative<KillLeakedProcesses>(action)) {
        for (const SimulatedWorker& worker : workers_) {
          ASSERT_FALSE(worker.running && worker.can_be_killed) << "not ended before";
        }
      } else if (const auto* begin = std::get_if<BeginAttempt>(&action)) {
        for (const SimulatedWorker& worker : workers_) ASSERT_FALSE(worker.running);
        ASSERT_EQ(begin->attempt, attempts_++);
        ASSERT_FALSE(interrupted_) << "an attempt after the end was decided";
        workers_.assign(workers_.size(), {});
        signals.clear();  // These went to the previous workers.
        first_failure_.reset();
        stopping_ = false;
      } else if (const auto* finish = std::get_if<Finish>(&action)) {
        finished_ = finish->run_end;
      }
    }
    for (const auto& [rank, signal] : signals) {
      const SimulatedWorker& worker = at(rank);
      ASSERT_NE(starting_, rank) << "a signal before its start is known";
      if (worker.running && (signal == SIGKILL ? worker.can_be_killed : worker.heeds_sigterm)) {
        exits(supervisor, rank, KilledBy{signal});
      }
    }
  }

  void spawn_one(LocalRank rank, Supervisor& supervisor) {
    if (chance(40)) {
      const Error error{ErrorKind::kSystem, "out of processes"};
      return perform(supervisor.step(SpawnFailed{rank, error}, now_), supervisor);
    }
    at(rank) = {.running = true, .output_open = true};
    at(rank).ends_by_itself = !chance(4);
    at(rank).heeds_sigterm = !chance(3);
    at(rank).can_be_killed = !chance(20);
    at(rank).leaks = chance(6);
    // Otherwise the run would not end.
    if (!at(rank).ends_by_itself && !chance(2)) at(rank).ends_by_itself = true;
    ASSERT_FALSE(starting_) << "two at once";
    starting_ = rank;
  }

  void check_run_end() {
    for (std::size_t i = 0; i < workers_.size(); ++i) {
      const SimulatedWorker& worker = workers_[i];
      EXPECT_FALSE(worker.output_open);
      EXPECT_EQ(finished_->workers[i].end, worker.end);
      if (worker.running) {
        EXPECT_FALSE(worker.can_be_killed) << "left running";
      } else if (worker.end) {
        EXPECT_TRUE(worker.reaped);
      }
    }
    if (finished_->cause == RunEnd::Cause::kWorkerFailed) {
      EXPECT_EQ(finished_->culprit, first_failure_);
    }
    if (finished_->cause == RunEnd::Cause::kSucceeded) {
      for (const SimulatedWorker& worker : workers_)
        EXPECT_EQ(worker.end, ProcessEnd(ExitedWith{0}));
      EXPECT_FALSE(interrupted_);
    }
  }

  SimulatedWorker& at(LocalRank rank) { return workers_[static_cast<std::size_t>(rank.value())]; }

  std::mt19937 random_;
  std::vector<SimulatedWorker> workers_;
  TimePoint now_{};
  bool interrupted_ = false, stopping_ = false;
  int attempts_ = 0;
  std::optional<LocalRank> first_failure_;
  std::optional<LocalRank> starting_;  // No answer yet.
  std::vector<LocalRank> closing_;     // No answer yet.
  std::optional<RunEnd> finished_;
};

TEST(SupervisorRandomTest, InvariantsHoldInAnyOrderOfEvents) {
  for (unsigned seed = 0; seed < 5000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomRun(seed).run();
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace distrun
