// A supervisor in a run of several nodes, alone and with others and their coordinator.
#include <csignal>
#include <deque>
#include <random>
#include <set>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/nodes/nodes_coordinator.h"
#include "launcher/run/supervisor.h"

namespace distrun {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

const TimePoint kNodesStart{};
constexpr ExitedWith kNodesOk{0};

std::string nodes_action_text(const Action& action) {
  struct Text {
    std::string operator()(const BeginAttempt& a) { return fmt::format("attempt {}", a.attempt); }
    std::string operator()(const Spawn& a) { return fmt::format("spawn {}", a.worker.value()); }
    std::string operator()(const SendSignal& a) {
      return fmt::format("{} to {}", signal_name(a.signal), a.worker.value());
    }
    std::string operator()(const Reap& a) { return fmt::format("reap {}", a.worker.value()); }
    std::string operator()(const ShowStacks& a) { return a.prints ? "show stacks" : "read stacks"; }
    std::string operator()(const KillLeakedProcesses&) { return "kill leaked processes"; }
    std::string operator()(const TellStillRunning&) { return "tell still running"; }
    std::string operator()(const TellFailedAttempt& a) {
      return fmt::format("failed attempt {}", a.end.attempt);
    }
    std::string operator()(const TellNodesFailed& a) {
      return fmt::format("tell failed {}{}", exit_status(a.end), a.may_restart ? "" : " for good");
    }
    std::string operator()(const TellNodesSucceeded& a) {
      return fmt::format("tell succeeded {}", a.attempt);
    }
    std::string operator()(const TellNodesStopped& a) {
      return fmt::format("tell stopped {}", a.attempt);
    }
    std::string operator()(const Finish& a) {
      return fmt::format("finish {}", exit_status(a.run_end));
    }
    std::string operator()(const Forward&) { return "forward"; }
    std::string operator()(const Suspend&) { return "suspend"; }
    std::string operator()(const CloseOutput&) { return "close output"; }
  };
  return std::visit(Text{}, action);
}

class SupervisorAmongNodesTest : public ::testing::Test {
 protected:
  void make(int node, Supervisor::Options options = {}) {
    options.nodes = 3;
    options.node = node;
    supervisor_.emplace(options);
    EXPECT_THAT(supervisor_->start(kNodesStart), IsEmpty()) << "before the others are there";
  }
  void start(int node, const Supervisor::Options& options = {}) {
    make(node, options);
    EXPECT_THAT(step(StartOrdered{0}), ElementsAre("attempt 0", "spawn 0"));
    step(Spawned{LocalRank(0)});
  }

  std::vector<std::string> step(const SupervisorEvent& event, seconds after = seconds(1)) {
    std::vector<std::string> lines;
    for (const Action& action : supervisor_->step(event, kNodesStart + after)) {
      lines.push_back(nodes_action_text(action));
      if (const auto* finish = std::get_if<Finish>(&action)) run_end_ = finish->run_end;
    }
    return lines;
  }
  std::vector<std::string> exits(const ProcessEnd& end) {
    auto lines = step(OutputClosed{LocalRank(0)});
    for (auto& line : step(Exited{LocalRank(0), end})) lines.push_back(line);
    return lines;
  }

  static NodesVerdict verdict(int node, int status) {
    return {.status = status, .node = node, .host = "there", .headline = "oh"};
  }

  std::optional<Supervisor> supervisor_;
  RunEnd run_end_;
};

TEST_F(SupervisorAmongNodesTest, ReportsItsFailureAtOnceAndWaitsForTheVerdict) {
  start(1);
  EXPECT_THAT(exits(ExitedWith{7}), ElementsAre("tell failed 7", "SIGTERM to 0", "reap 0",
                                                "kill leaked processes", "tell stopped 0"));
  EXPECT_THAT(step(StopOrdered{verdict(1, 7)}), ElementsAre("tell stopped 0", "finish 7"));
  EXPECT_EQ(run_end_.cause, RunEnd::Cause::kWorkerFailed);
  EXPECT_EQ(run_end_.culprit, LocalRank(0));
}

TEST_F(SupervisorAmongNodesTest, EarlierFailureOnAnotherNodeIsTheCause) {
  start(1);
  exits(ExitedWith{7});
  EXPECT_THAT(step(StopOrdered{verdict(2, 9)}), ElementsAre("tell stopped 0", "finish 9"));
  EXPECT_EQ(run_end_.cause, RunEnd::Cause::kOtherNode);
  EXPECT_EQ(run_end_.culprit, std::nullopt);
}

TEST_F(SupervisorAmongNodesTest, FailureOnAnotherNodeStopsItsWorkers) {
  start(1);
  EXPECT_THAT(step(StopOrdered{verdict(2, 9)}), ElementsAre("SIGTERM to 0"));
  EXPECT_THAT(exits(KilledBy{SIGTERM}),
              ElementsAre("reap 0", "kill leaked processes", "tell stopped 0", "finish 9"));
}

TEST_F(SupervisorAmongNodesTest, ItsWorkersGetTheSignalThatAnotherNodeReceived) {
  start(1);
  NodesVerdict interrupted = verdict(2, 128 + SIGINT);
  interrupted.signal = SIGINT;
  EXPECT_THAT(step(StopOrdered{interrupted}), ElementsAre("read stacks", "SIGINT to 0"));
}

TEST_F(SupervisorAmongNodesTest, TimeoutOnAnotherNodeShowsItsWorkersToo) {
  start(1);
  EXPECT_THAT(step(StopOrdered{verdict(2, kExitTimedOut)}),
              ElementsAre("show stacks", "SIGTERM to 0"));
  start(1);
  EXPECT_THAT(step(StopOrdered{verdict(0, kExitHung)}), ElementsAre("show stacks", "SIGTERM to 0"));
}

TEST_F(SupervisorAmongNodesTest, Node0FinishesLast) {
  start(0);
  step(StopOrdered{verdict(2, 9)});
  EXPECT_THAT(exits(KilledBy{SIGTERM}),
              ElementsAre("reap 0", "kill leaked processes", "tell stopped 0"));
  NodesVerdict noted = verdict(2, 9);
  noted.notes = "  node 1 is lost too\n";
  EXPECT_THAT(step(FinishOrdered{noted}), ElementsAre("finish 9"));
  EXPECT_EQ(run_end_.verdict, noted);
}

TEST_F(SupervisorAmongNodesTest, WaitsForTheOtherNodesAfterSuccess) {
  start(1);
  EXPECT_THAT(exits(kNodesOk), ElementsAre("reap 0", "kill leaked processes", "tell succeeded 0"));
  EXPECT_EQ(supervisor_->next_deadline(), std::nullopt);
  EXPECT_THAT(step(FinishOrdered{NodesVerdict{}}), ElementsAre("finish 0"));
}

TEST_F(SupervisorAmongNodesTest, RunFailsIfAnotherNodeFailsAfterSuccessHere) {
  start(1);
  exits(kNodesOk);
  EXPECT_THAT(step(StopOrdered{verdict(0, 7)}), ElementsAre("tell stopped 0", "finish 7"));
  EXPECT_EQ(run_end_.cause, RunEnd::Cause::kOtherNode);
}

TEST_F(SupervisorAmongNodesTest, StopsWaitingForAMissingVerdict) {
  start(1, {.verdict_timeout = seconds(20)});
  exits(ExitedWith{7});
  EXPECT_EQ(supervisor_->next_deadline(), kNodesStart + seconds(21));
  EXPECT_THAT(step(Tick{}, seconds(20)), IsEmpty());
  EXPECT_THAT(step(Tick{}, seconds(21)), ElementsAre("finish 7"));
  EXPECT_EQ(run_end_.verdict, std::nullopt);
}

TEST_F(SupervisorAmongNodesTest, AfterASignalItDoesNotWaitLongForTheVerdict) {
  start(1, {.verdict_timeout = seconds(20), .signal_verdict_timeout = seconds(4)});
  step(Interrupted{SIGTERM});
  exits(KilledBy{SIGTERM});
  EXPECT_THAT(step(Tick{}, seconds(4)), IsEmpty());
  EXPECT_THAT(step(Tick{}, seconds(5)), ElementsAre("finish 143"));
}

TEST_F(SupervisorAmongNodesTest, StartsAnotherAttemptWhenOrdered) {
  start(1, {.max_restarts = 1});
  EXPECT_THAT(exits(ExitedWith{7}), ElementsAre("tell failed 7", "SIGTERM to 0", "reap 0",
                                                "kill leaked processes", "tell stopped 0"));
  EXPECT_THAT(step(StopOrdered{verdict(1, 7), /*is_last=*/false}), ElementsAre("tell stopped 0"));
  EXPECT_EQ(supervisor_->next_deadline(), std::nullopt);
  EXPECT_THAT(step(StartOrdered{1}), ElementsAre("failed attempt 0", "attempt 1", "spawn 0"));
}

TEST_F(SupervisorAmongNodesTest, ReportsASignalWhileWaitingForAnotherAttempt) {
  start(1, {.max_restarts = 1});
  step(StopOrdered{verdict(2, 7), /*is_last=*/false});
  exits(KilledBy{SIGTERM});
  EXPECT_THAT(step(Interrupted{SIGINT}), ElementsAre("tell failed 130 for good"));
  EXPECT_THAT(step(StartOrdered{1}), ElementsAre("tell failed 130 for good"))
      << "it has crossed the signal, which was told of the attempt before";
  EXPECT_THAT(step(StartOrdered{1}), IsEmpty());
  EXPECT_THAT(step(StopOrdered{verdict(1, 130)}), ElementsAre("tell stopped 1", "finish 130"));
}

TEST_F(SupervisorAmongNodesTest, SignalEndsTheWaitForNodesToJoin) {
  make(1);
  EXPECT_THAT(step(Interrupted{SIGTERM}), ElementsAre("tell failed 143 for good"));
  EXPECT_THAT(step(StopOrdered{verdict(1, 143)}), ElementsAre("tell stopped 0", "finish 143"));
}

TEST_F(SupervisorAmongNodesTest, SecondSignalEndsTheRunAtOnce) {
  make(1);
  step(Interrupted{SIGTERM}, seconds(1));
  EXPECT_THAT(step(Interrupted{SIGTERM}, seconds(2)), ElementsAre("finish 143"));
}

TEST_F(SupervisorAmongNodesTest, SignalEndsTheWaitOfNode0ForOtherNodes) {
  start(0);
  step(StopOrdered{verdict(2, 9)});
  exits(KilledBy{SIGTERM});
  EXPECT_THAT(step(Interrupted{SIGTERM}), ElementsAre("finish 9"));
}

TEST_F(SupervisorAmongNodesTest, TimeoutStartsAtTheFirstAttemptAndIncludesWaits) {
  make(1, {.timeout = seconds(60)});
  EXPECT_EQ(supervisor_->next_deadline(), std::nullopt);
  step(StartOrdered{0}, seconds(100));
  EXPECT_EQ(supervisor_->next_deadline(), kNodesStart + seconds(160));
  step(Spawned{LocalRank(0)}, seconds(100));
  exits(kNodesOk);
  EXPECT_EQ(supervisor_->next_deadline(), kNodesStart + seconds(160));
  EXPECT_THAT(step(Tick{}, seconds(160)), ElementsAre("tell failed 124 for good"));
}

TEST_F(SupervisorAmongNodesTest, LosingNode0AfterTheVerdictChangesNothing) {
  start(1);
  step(StopOrdered{verdict(2, 9)});
  step(StopOrdered{verdict(0, 125)});
  EXPECT_THAT(exits(KilledBy{SIGTERM}),
              ElementsAre("reap 0", "kill leaked processes", "tell stopped 0", "finish 9"));
}

TEST_F(SupervisorAmongNodesTest, DoesNotReportStoppedIfAWorkerCannotBeKilled) {
  start(1, {.max_restarts = 1, .shutdown_timeout = seconds(5), .kill_timeout = seconds(5)});
  step(StopOrdered{verdict(2, 9), /*is_last=*/false}, seconds(10));
  step(Tick{}, seconds(15));
  EXPECT_THAT(step(Tick{}, seconds(20)), ElementsAre("close output", "kill leaked processes"));
  EXPECT_THAT(step(FinishOrdered{verdict(2, 9)}, seconds(90)), ElementsAre("finish 9"));
}

// Random runs of several nodes in one thread, with real supervisors and a real coordinator: workers
// end in any way, orders are late, nodes are lost, signals arrive. Invariants: nodes that are not
// lost finish without a timeout, with the same status unless node 0 was lost, and no worker uses
// the store of another attempt.
class RandomNodesRun {
 public:
  explicit RandomNodesRun(unsigned seed)
      : random_(seed),
        max_restarts_(static_cast<int>(pick(3))),
        calm_(pick(3) == 0),
        coordinator_({.nodes = kNodes, .run_id = "run", .max_restarts = max_restarts_},
                     kNodesStart) {
    for (int i = 0; i < kNodes; ++i) {
      nodes_.emplace_back();
      nodes_.back().supervisor.emplace(Supervisor::Options{
          .workers = kWorkers, .max_restarts = max_restarts_, .nodes = kNodes, .node = i});
      nodes_.back().supervisor->start(kNodesStart);
    }
  }

  void run() {
    for (int i = 0; i < kNodes; ++i) {
      coordinate(NodeAsked{peer(i),
                           {.run_id = "run",
                            .node = i,
                            .nodes = kNodes,
                            .workers = kWorkers,
                            .max_restarts = max_restarts_}});
    }
    for (int steps = 0; steps < 5'000 && !is_over(); ++steps) act(static_cast<int>(pick(kNodes)));
    std::set<int> statuses;
    for (int i = 0; i < kNodes; ++i) {
      if (at(i).lost) continue;
      ASSERT_TRUE(at(i).end) << "node " << i << " has not finished";
      statuses.insert(exit_status(*at(i).end));
    }
    if (!at(0).lost) {
      EXPECT_EQ(statuses.size(), 1u) << "nodes do not agree";
    }
  }

 private:
  static constexpr int kNodes = 3, kWorkers = 2;
  enum class Process { kNone, kRuns, kTold, kEnded };
  struct Node {
    std::optional<Supervisor> supervisor;
    std::deque<NodeOrder> orders;
    std::deque<SupervisorEvent> answers;
    std::vector<Process> workers;
    int attempt = -1;
    bool told = false, lost = false;
    std::optional<RunEnd> end;
  };

  std::size_t pick(std::size_t choices) { return random_() % choices; }
  Node& at(int node) { return nodes_[static_cast<std::size_t>(node)]; }
  static NodePeer peer(int node) { return static_cast<NodePeer>(node); }
  static bool is_done(const Node& node) { return node.lost || node.end; }
  bool is_over() const {
    return std::all_of(nodes_.begin(), nodes_.end(), [](const Node& n) { return is_done(n); });
  }

  void coordinate(const NodeEvent& event) {
    if (at(0).lost || at(0).end) return;
    for (const NodeAction& action : coordinator_.step(event, kNodesStart)) {
      if (const auto* order = std::get_if<OrderNode>(&action)) {
        if (!is_done(at(order->node))) at(order->node).orders.push_back(order->order);
      } else if (const auto* renew = std::get_if<RenewStore>(&action)) {
        store_ = renew->attempt;
        for (const Node& node : nodes_) {
          for (const Process worker : node.workers) {
            EXPECT_TRUE(node.lost || worker == Process::kNone || worker == Process::kEnded)
                << "a worker of the attempt before is left";
          }
        }
      }
    }
  }

  void leave(int node) {
    if (node != 0) return coordinate(NodeLost{peer(node), "gone"});
    for (Node& other : nodes_) {
      other.orders.push_back(StopNode{.verdict = {.status = 125, .node = 0, .headline = "lost"}});
    }
  }

  void happens(int node, const SupervisorEvent& event) {
    for (const Action& action : at(node).supervisor->step(event, kNodesStart)) {
      std::visit([&](const auto& what) { perform(node, what); }, action);
    }
  }

  void perform(int node, const BeginAttempt& action) {
    EXPECT_TRUE(action.attempt == store_ || at(0).lost) << "workers of two attempts may meet";
    at(node).attempt = action.attempt;
    at(node).told = false;
    at(node).workers.assign(kWorkers, Process::kNone);
  }
  void perform(int node, const Spawn& action) {
    worker(node, action.worker) = Process::kRuns;
    at(node).answers.push_back(Spawned{action.worker});
  }
  void perform(int node, const SendSignal& action) {
    Process& process = worker(node, action.worker);
    if (process == Process::kRuns) process = Process::kTold;
  }
  void perform(int node, const CloseOutput& action) {
    at(node).answers.push_back(OutputClosed{action.worker});
  }
  void perform(int node, const TellNodesFailed& action) {
    at(node).told = true;
    coordinate(NodeReported{peer(node),
                            NodeFailed{action.end.attempt,
                                       action.may_restart,
                                       {.status = exit_status(action.end), .headline = "failed"}}});
  }
  void perform(int node, const TellNodesSucceeded& action) {
    coordinate(NodeReported{peer(node), NodeSucceeded{action.attempt}});
  }
  void perform(int node, const TellNodesStopped& action) {
    coordinate(NodeReported{peer(node), NodeStopped{action.attempt}});
  }
  void perform(int node, const Finish& action) {
    EXPECT_FALSE(at(node).end) << "finished twice";
    at(node).end = action.run_end;
    leave(node);
  }
  template <class Other>
  void perform(int, const Other&) {}

  Process& worker(int node, LocalRank rank) {
    return at(node).workers[static_cast<std::size_t>(rank.value())];
  }

  void act(int index) {
    Node& node = at(index);
    if (is_done(node)) return;
    const std::size_t choice = pick(100);
    if (!calm_ && choice == 0 && pick(4) == 0) {
      node.lost = true;
      leave(index);
    } else if (!calm_ && choice == 1 && pick(4) == 0 && !node.told) {
      happens(index, Interrupted{SIGTERM});
    } else if (choice < 40 && !node.orders.empty()) {
      const NodeOrder order = node.orders.front();
      node.orders.pop_front();
      std::visit([&](const auto& what) { obey(index, what); }, order);
    } else if (choice < 70 && !node.answers.empty()) {
      const SupervisorEvent answer = node.answers.front();
      node.answers.pop_front();
      happens(index, answer);
    } else if (!node.workers.empty()) {
      end_worker(index, LocalRank(static_cast<int>(pick(kWorkers))));
    }
  }

  void obey(int node, const StartNode& order) { happens(node, StartOrdered{order.attempt}); }
  void obey(int node, const StopNode& order) {
    happens(node, StopOrdered{order.verdict, order.is_last});
  }
  void obey(int node, const FinishNode& order) { happens(node, FinishOrdered{order.verdict}); }

  void end_worker(int node, LocalRank rank) {
    Process& process = worker(node, rank);
    if (process != Process::kRuns && process != Process::kTold) return;
    if (!at(node).answers.empty()) return;  // Its start may not be reported yet.
    if (process == Process::kRuns && pick(4) != 0) return;
    ProcessEnd end = KilledBy{SIGTERM};
    if (process == Process::kRuns) end = ExitedWith{pick(3) == 0 ? static_cast<int>(pick(99)) : 0};
    process = Process::kEnded;
    happens(node, OutputClosed{rank});
    if (!is_done(at(node))) happens(node, Exited{rank, end});
  }

  std::mt19937 random_;
  int max_restarts_;
  bool calm_;  // No losses and no signals.
  NodesCoordinator coordinator_;
  std::deque<Node> nodes_;
  int store_ = 0;
};

TEST(NodesTogetherTest, AgreeOnTheEndInAnyOrderOfEvents) {
  for (unsigned seed = 0; seed < 12000 && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    RandomNodesRun(seed).run();
  }
}

}  // namespace
}  // namespace distrun
