#include "launcher/nodes/nodes_coordinator.h"

#include <random>
#include <set>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace distrun {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const NodesCoordinator::TimePoint kJoinStart{};

std::string node_action_text(const NodeAction& action) {
  struct Text {
    std::string operator()(const AcceptNode& a) { return fmt::format("accept {}", a.node); }
    std::string operator()(const RefuseNode& a) { return "refuse: " + a.reason; }
    std::string operator()(const RenewStore& a) { return fmt::format("store {}", a.attempt); }
    std::string operator()(const OrderNode& a) {
      return std::visit(*this, a.order) + fmt::format(" to {}", a.node);
    }
    std::string operator()(const StartNode& a) {
      return fmt::format("start {} at {}/{}", a.attempt, a.rank_base, a.world_size);
    }
    std::string operator()(const StopNode& a) {
      return fmt::format("stop{} {}", a.is_last ? "" : " for another attempt", a.verdict.status);
    }
    std::string operator()(const FinishNode& a) {
      return fmt::format("finish {}", a.verdict.status);
    }
  };
  return std::visit(Text{}, action);
}

// A node's peer number is its rank, except for a second node with that rank.
class NodesCoordinatorTest : public ::testing::Test {
 protected:
  void make(const NodesCoordinator::Options& options) { coordinator_.emplace(options, kJoinStart); }

  std::vector<std::string> step(const NodeEvent& event, seconds after = seconds(1)) {
    std::vector<std::string> lines;
    for (const NodeAction& action : coordinator_->step(event, kJoinStart + after)) {
      lines.push_back(node_action_text(action));
      if (const auto* order = std::get_if<OrderNode>(&action)) {
        if (const auto* finish = std::get_if<FinishNode>(&order->order)) verdict_ = finish->verdict;
      }
    }
    return lines;
  }

  JoinRequest request(int node) {
    return {.run_id = "run",
            .node = node,
            .nodes = nodes_,
            .workers = 2,
            .role = "default",
            .host = fmt::format("host{}", node)};
  }
  std::vector<std::string> joins(int node) {
    return step(NodeAsked{static_cast<NodePeer>(node), request(node)});
  }
  std::vector<std::string> reports(int node, const NodeReport& report) {
    return step(NodeReported{static_cast<NodePeer>(node), report});
  }
  std::vector<std::string> fails(int node, int status, int attempt = 0, bool may_restart = true) {
    return reports(node, NodeFailed{attempt, may_restart, {.status = status, .headline = "oh"}});
  }
  std::vector<std::string> loses(int node) {
    return step(NodeLost{static_cast<NodePeer>(node), "its connection has ended"});
  }

  void start(int nodes, int max_restarts = 0) {
    nodes_ = nodes;
    make({.nodes = nodes,
          .run_id = "run",
          .max_restarts = max_restarts,
          .hang_after = std::chrono::milliseconds(1500)});
    for (int node = 0; node < nodes; ++node) {
      JoinRequest asks = request(node);
      asks.max_restarts = max_restarts;
      asks.hang_after_ms = 1500;
      step(NodeAsked{static_cast<NodePeer>(node), asks});
    }
  }

  int nodes_ = 2;
  std::optional<NodesCoordinator> coordinator_;
  NodesVerdict verdict_;
};

TEST_F(NodesCoordinatorTest, StartsWhenAllHaveJoinedWithRanksInNodeOrder) {
  nodes_ = 3;
  make({.nodes = 3, .run_id = "run"});
  EXPECT_THAT(joins(2), ElementsAre("accept 2"));
  EXPECT_THAT(joins(0), ElementsAre("accept 0"));
  JoinRequest big = request(1);
  big.workers = 5;
  EXPECT_THAT(step(NodeAsked{1, big}), ElementsAre("accept 1", "start 0 at 0/9 to 0",
                                                   "start 0 at 2/9 to 1", "start 0 at 7/9 to 2"));
  EXPECT_EQ(coordinator_->next_deadline(), std::nullopt);
  const auto ranks = coordinator_->ranks();
  ASSERT_EQ(ranks.size(), 3U);
  EXPECT_EQ(ranks[2].host, "host2");
  EXPECT_EQ(ranks[2].first, 7);
  EXPECT_EQ(ranks[2].count, 2);
}

TEST_F(NodesCoordinatorTest, TorchrunEndsTheRunBeforeItsStart) {
  make({.nodes = 2, .run_id = "run"});
  joins(0);
  EXPECT_THAT(step(TorchrunCame{"10.0.0.7"}), ElementsAre("stop 125 to 0"));
  EXPECT_THAT(reports(0, NodeStopped{0}), ElementsAre("finish 125 to 0"));
  EXPECT_EQ(describe(verdict_),
            "a node at 10.0.0.7 runs torchrun; start distrun launch on every node");

  start(2);
  EXPECT_THAT(step(TorchrunCame{"10.0.0.7"}), IsEmpty()) << "all nodes are here";
}

TEST_F(NodesCoordinatorTest, NamesTheCommandToStartInsteadOfTorchrun) {
  make({.nodes = 2, .command = "distrun test", .run_id = "run"});
  JoinRequest own = request(0);
  own.command = "distrun test";
  step(NodeAsked{0, own});
  step(TorchrunCame{"10.0.0.7"});
  reports(0, NodeStopped{0});
  EXPECT_EQ(describe(verdict_),
            "a node at 10.0.0.7 runs torchrun; start distrun test on every node");
}

TEST_F(NodesCoordinatorTest, RunHangsIfNoNodeMakesProgress) {
  start(3, /*max_restarts=*/1);
  EXPECT_THAT(reports(0, NodeQuiet{0, true}), IsEmpty());
  EXPECT_THAT(reports(1, NodeQuiet{0, true}), IsEmpty());
  EXPECT_THAT(reports(0, NodeQuiet{0, false}), IsEmpty());
  EXPECT_THAT(reports(2, NodeQuiet{0, true}), IsEmpty());
  EXPECT_THAT(reports(0, NodeQuiet{0, true}),
              ElementsAre("stop for another attempt 75 to 0", "stop for another attempt 75 to 1",
                          "stop for another attempt 75 to 2"));
  for (const int node : {0, 1}) reports(node, NodeStopped{0});
  EXPECT_THAT(reports(2, NodeStopped{0}), ::testing::Contains("start 1 at 0/6 to 0"));
  // In a new attempt, no node is quiet yet.
  EXPECT_THAT(reports(0, NodeQuiet{1, true}), IsEmpty());
  EXPECT_THAT(reports(1, NodeQuiet{0, true}), IsEmpty()) << "of the attempt before";
}

TEST_F(NodesCoordinatorTest, SucceededNodeNeedsNoProgress) {
  start(2);
  EXPECT_THAT(reports(0, NodeQuiet{0, true}), IsEmpty());
  EXPECT_THAT(reports(1, NodeSucceeded{0}), IsEmpty()) << "that is progress";
  EXPECT_EQ(coordinator_->next_deadline(), kJoinStart + std::chrono::milliseconds(2500));
  EXPECT_THAT(step(NodesTick{}, seconds(2)), IsEmpty());
  EXPECT_THAT(step(NodesTick{}, seconds(3)), ElementsAre("stop 75 to 0", "stop 75 to 1"));
}

TEST_F(NodesCoordinatorTest, CountsWorkersByRole) {
  nodes_ = 3;
  make({.nodes = 3, .run_id = "run"});
  joins(0);
  joins(2);
  JoinRequest other = request(1);
  other.role = "evaluator";
  std::vector<std::pair<int, int>> places;
  for (const auto& action : coordinator_->step(NodeAsked{1, other}, kJoinStart)) {
    if (const auto* order = std::get_if<OrderNode>(&action)) {
      const auto& start = std::get<StartNode>(order->order);
      places.emplace_back(start.role_rank_base, start.role_world_size);
    }
  }
  EXPECT_THAT(places, ElementsAre(std::pair(0, 4), std::pair(0, 2), std::pair(2, 4)));
}

TEST_F(NodesCoordinatorTest, RefusesNodesOfOtherRunsWithReason) {
  nodes_ = 3;
  make({.nodes = 3, .run_id = "run"});
  joins(1);
  const auto refused = [&](auto change) {
    JoinRequest asks = request(2);
    change(asks);
    const auto actions = step(NodeAsked{9, asks});
    return actions.size() == 1 ? actions[0] : "";
  };
  EXPECT_THAT(refused([](auto& r) { r.protocol = 9; }), HasSubstr("refuse: it has version 9"));
  EXPECT_EQ(refused([](auto& r) { r.command = "distrun test"; }),
            "refuse: it runs distrun test, node 0 runs distrun launch: run the same command on "
            "every node");
  EXPECT_THAT(refused([](auto& r) { r.run_id = "other"; }),
              HasSubstr("it has --rdzv-id 'other', node 0 has 'run'"));
  EXPECT_THAT(refused([](auto& r) { r.nodes = 2; }), HasSubstr("it has --nnodes 2, node 0 has 3"));
  EXPECT_THAT(refused([](auto& r) { r.node = 3; }),
              HasSubstr("it has --node-rank 3, which is not between 0 and 2 (--nnodes 3)"));
  EXPECT_THAT(refused([](auto& r) { r.max_restarts = 1; }), HasSubstr("it has --max-restarts 1"));
  EXPECT_THAT(refused([](auto& r) { r.hang_after_ms = 1500; }),
              HasSubstr("it has --hang-after 1.5, node 0 has no --hang-after"));
  EXPECT_THAT(refused([](auto& r) { r.heartbeat_ms = 500; }),
              HasSubstr("it has --heartbeat 0.5, node 0 has 0"));
  EXPECT_THAT(refused([](auto& r) { r.records = "--digest"; }),
              HasSubstr("it has --digest, node 0 has no --digest"));
  EXPECT_THAT(refused([](auto& r) { r.node = 1; }),
              HasSubstr("--node-rank 1 is taken: host1 has it"));
  // The refused requests do not count as joined.
  EXPECT_EQ(coordinator_->missing(), "nodes 0, 2; only node 1 (host1) has joined");
}

TEST_F(NodesCoordinatorTest, NodeLostBeforeTheStartMayJoinAgain) {
  make({.nodes = 2, .run_id = "run"});
  joins(1);
  EXPECT_THAT(loses(1), IsEmpty());
  EXPECT_THAT(joins(0), ElementsAre("accept 0"));
  EXPECT_THAT(joins(1), ElementsAre("accept 1", "start 0 at 0/4 to 0", "start 0 at 2/4 to 1"));
}

TEST_F(NodesCoordinatorTest, NamesNodesThatDoNotJoinInTime) {
  nodes_ = 4;
  make({.nodes = 4, .run_id = "run", .join_timeout = seconds(60)});
  joins(0);
  joins(2);
  EXPECT_EQ(coordinator_->next_deadline(), kJoinStart + seconds(60));
  EXPECT_THAT(step(NodesTick{}, seconds(59)), IsEmpty());
  EXPECT_THAT(step(NodesTick{}, seconds(60)), ElementsAre("stop 125 to 0", "stop 125 to 2"));
  reports(2, NodeStopped{});
  EXPECT_THAT(reports(0, NodeStopped{}), ElementsAre("finish 125 to 0", "finish 125 to 2"));
  EXPECT_EQ(describe(verdict_),
            "node 0 (host0): nodes 1, 3 did not join within 60 s; "
            "only node 0 (host0), node 2 (host2) have joined");
}

TEST_F(NodesCoordinatorTest, FinishesWhenAllHaveSucceeded) {
  start(2);
  EXPECT_THAT(reports(1, NodeSucceeded{}), IsEmpty());
  EXPECT_THAT(reports(0, NodeSucceeded{}), ElementsAre("finish 0 to 0", "finish 0 to 1"));
  EXPECT_TRUE(coordinator_->is_finished());
}

TEST_F(NodesCoordinatorTest, FirstFailureStopsAllNodesAndIsTheVerdict) {
  start(3);
  EXPECT_THAT(fails(1, 7), ElementsAre("stop 7 to 0", "stop 7 to 1", "stop 7 to 2"));
  EXPECT_THAT(fails(2, 9), IsEmpty());
  EXPECT_THAT(reports(2, NodeStopped{}), IsEmpty());
  EXPECT_THAT(reports(1, NodeStopped{}), IsEmpty());
  EXPECT_THAT(reports(0, NodeStopped{}),
              ElementsAre("finish 7 to 0", "finish 7 to 1", "finish 7 to 2"));
  EXPECT_EQ(describe(verdict_), "node 1 (host1): oh");
}

TEST_F(NodesCoordinatorTest, FailureStopsNodesThatHaveSucceeded) {
  start(2);
  reports(0, NodeSucceeded{});
  EXPECT_THAT(fails(1, 3), ElementsAre("stop 3 to 0", "stop 3 to 1"));
}

TEST_F(NodesCoordinatorTest, LostNodeEndsTheRun) {
  start(2);
  EXPECT_THAT(loses(1), ElementsAre("stop 125 to 0"));
  EXPECT_THAT(reports(0, NodeStopped{}), ElementsAre("finish 125 to 0"));
  EXPECT_EQ(describe(verdict_), "node 1 (host1): lost: its connection has ended");
}

TEST_F(NodesCoordinatorTest, ANode0ThatTheOthersHaveGivenUpIsTheCause) {
  start(2);
  EXPECT_THAT(step(NodeLost{1, "it did nothing for 60 s", /*is_by_node_0=*/true}),
              ElementsAre("stop 125 to 0"));
  reports(0, NodeStopped{});
  EXPECT_EQ(describe(verdict_), "node 0 (host0): lost: it did nothing for 60 s");
  EXPECT_FALSE(verdict_.is_of_node_0);
}

TEST_F(NodesCoordinatorTest, FailureReportedBeforeLossIsTheVerdict) {
  start(2);
  fails(1, 7);
  EXPECT_THAT(loses(1), IsEmpty());
  EXPECT_THAT(reports(0, NodeStopped{}), ElementsAre("finish 7 to 0"));
  EXPECT_EQ(verdict_.notes, "  node 1 (host1) is lost too: its connection has ended\n");
}

// The lost node's peers fail as a result, and their reports may arrive first.
TEST_F(NodesCoordinatorTest, NotesNodesLostAfterTheFirstFailure) {
  start(3);
  fails(1, 7);
  loses(2);
  reports(1, NodeStopped{});
  EXPECT_THAT(reports(0, NodeStopped{}), ElementsAre("finish 7 to 0", "finish 7 to 1"));
  EXPECT_EQ(verdict_.notes, "  node 2 (host2) is lost too: its connection has ended\n");
}

TEST_F(NodesCoordinatorTest, StoppedNodeMayDisconnect) {
  start(2);
  fails(0, 7);
  reports(1, NodeStopped{});
  EXPECT_THAT(loses(1), IsEmpty());
  reports(0, NodeStopped{});
  EXPECT_EQ(verdict_.notes, "");
  EXPECT_TRUE(coordinator_->is_finished());
}

TEST_F(NodesCoordinatorTest, LosingASucceededNodeIsNotAFailure) {
  start(2);
  reports(1, NodeSucceeded{});
  EXPECT_THAT(loses(1), IsEmpty());
  EXPECT_THAT(reports(0, NodeSucceeded{}), ElementsAre("finish 0 to 0"));
}

TEST_F(NodesCoordinatorTest, IgnoresNodesLostAfterTheEnd) {
  start(3);
  reports(0, NodeSucceeded{});
  reports(1, NodeSucceeded{});
  reports(2, NodeSucceeded{});
  EXPECT_TRUE(coordinator_->is_finished());
  EXPECT_THAT(loses(2), IsEmpty());
}

TEST_F(NodesCoordinatorTest, StopsWaitingForNodesThatNeverStop) {
  start(2);
  fails(1, 7);
  reports(1, NodeStopped{});
  const auto deadline = coordinator_->next_deadline();
  ASSERT_EQ(deadline, kJoinStart + seconds(1 + 90));
  EXPECT_THAT(step(NodesTick{}, seconds(90)), IsEmpty());
  EXPECT_EQ(coordinator_->awaited(), "node 0 (host0) to end its workers");
  EXPECT_THAT(step(NodesTick{}, seconds(91)), ElementsAre("finish 7 to 0", "finish 7 to 1"));
  EXPECT_EQ(verdict_.notes, "  node 0 (host0) did not report that its workers ended\n");
}

TEST_F(NodesCoordinatorTest, RestartsWithAnEmptyStoreWhenAllHaveStopped) {
  start(2, /*max_restarts=*/1);
  EXPECT_THAT(fails(1, 7),
              ElementsAre("stop for another attempt 7 to 0", "stop for another attempt 7 to 1"));
  EXPECT_THAT(reports(1, NodeStopped{0}), IsEmpty());
  EXPECT_THAT(reports(0, NodeStopped{0}),
              ElementsAre("store 1", "start 1 at 0/4 to 0", "start 1 at 2/4 to 1"));
  // Reports of the previous attempt are ignored.
  EXPECT_THAT(fails(1, 9, /*attempt=*/0), IsEmpty());
  EXPECT_THAT(fails(0, 8, /*attempt=*/1), ElementsAre("stop 8 to 0", "stop 8 to 1"));
}

TEST_F(NodesCoordinatorTest, SignalDoesNotRestartTheRun) {
  start(2, /*max_restarts=*/1);
  EXPECT_THAT(fails(1, 143, 0, /*may_restart=*/false),
              ElementsAre("stop 143 to 0", "stop 143 to 1"));
}

TEST_F(NodesCoordinatorTest, SignalCancelsARestart) {
  start(2, /*max_restarts=*/1);
  fails(1, 7);
  reports(1, NodeStopped{0});
  EXPECT_THAT(fails(0, 143, 0, /*may_restart=*/false),
              ElementsAre("stop 143 to 0", "stop 143 to 1"));
  EXPECT_THAT(reports(0, NodeStopped{0}), ElementsAre("finish 143 to 0", "finish 143 to 1"));
}

TEST_F(NodesCoordinatorTest, LostNodeCancelsARestart) {
  start(2, /*max_restarts=*/1);
  fails(1, 7);
  EXPECT_THAT(loses(1), ElementsAre("stop 7 to 0"));
  EXPECT_THAT(reports(0, NodeStopped{0}), ElementsAre("finish 7 to 0"));
}

TEST_F(NodesCoordinatorTest, SignalBeforeTheStartStopsJoinedNodes) {
  nodes_ = 3;
  make({.nodes = 3, .run_id = "run"});
  joins(0);
  joins(1);
  EXPECT_THAT(fails(1, 130, 0, false), ElementsAre("stop 130 to 0", "stop 130 to 1"));
  EXPECT_THAT(joins(2), ElementsAre("refuse: the run is ending"));
  // A node that joins again gets the true reason, not "is taken".
  EXPECT_THAT(joins(1), ElementsAre("refuse: the run is ending"));
  reports(1, NodeStopped{0});
  EXPECT_THAT(reports(0, NodeStopped{0}), ElementsAre("finish 130 to 0", "finish 130 to 1"));
}

TEST_F(NodesCoordinatorTest, IgnoresPeersThatHaveNotJoined) {
  start(2);
  EXPECT_THAT(step(NodeReported{9, NodeFailed{0, true, {.status = 7}}}), IsEmpty());
  EXPECT_THAT(step(NodeLost{9, "gone"}), IsEmpty());
}

// Random runs: nodes follow the protocol, with random delays, and randomly fail, succeed or are
// lost. Invariants: nodes that are not lost all get the same end, once; an attempt starts after all
// workers of the previous one have ended; every wait has a deadline.
class RandomNodes {
 public:
  explicit RandomNodes(unsigned seed)
      : random_(seed),
        nodes_(1 + pick(4)),
        max_restarts_(static_cast<int>(pick(3))),
        coordinator_({.nodes = static_cast<int>(nodes_.size()),
                      .run_id = "run",
                      .max_restarts = max_restarts_},
                     kJoinStart) {}

  void run() {
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      tell(NodeAsked{i,
                     {.run_id = "run",
                      .node = static_cast<int>(i),
                      .nodes = static_cast<int>(nodes_.size()),
                      .max_restarts = max_restarts_}});
    }
    for (int steps = 0; steps < 10'000; ++steps) {
      std::vector<std::size_t> active;
      for (std::size_t i = 0; i < nodes_.size(); ++i) {
        if (!nodes_[i].lost && !nodes_[i].finished) active.push_back(i);
      }
      if (active.empty()) break;
      act(active[pick(active.size())]);
    }
    std::set<int> ends;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (nodes_[i].lost) continue;
      EXPECT_TRUE(nodes_[i].finished) << "node " << i << " was never told the end";
      ends.insert(nodes_[i].status);
    }
    EXPECT_LE(ends.size(), 1u) << "nodes were told different ends";
    EXPECT_TRUE(coordinator_.is_finished());
  }

 private:
  struct Node {
    std::vector<NodeOrder> orders;
    int attempt = -1;  // -1: no workers.
    bool lost = false, finished = false;
    int status = -1;
  };

  std::size_t pick(std::size_t choices) { return random_() % choices; }

  void tell(const NodeEvent& event) {
    for (const NodeAction& action : coordinator_.step(event, kJoinStart)) {
      if (const auto* order = std::get_if<OrderNode>(&action)) {
        nodes_[static_cast<std::size_t>(order->node)].orders.push_back(order->order);
      } else if (std::holds_alternative<RenewStore>(action)) {
        for (const Node& node : nodes_) {
          EXPECT_TRUE(node.lost || node.attempt < 0) << "a worker of the attempt before is left";
        }
      }
    }
  }

  void act(std::size_t index) {
    Node& node = nodes_[index];
    if (index > 0 && pick(60) == 0) {
      node.lost = true;
      return tell(NodeLost{index, "gone"});
    }
    if (!node.orders.empty() && pick(2) == 0) {
      const NodeOrder order = node.orders.front();
      node.orders.erase(node.orders.begin());
      return obey(index, order);
    }
    if (node.attempt < 0) return;
    const int attempt = std::exchange(node.attempt, -1);
    if (pick(3) > 0) return tell(NodeReported{index, NodeSucceeded{attempt}});
    tell(NodeReported{
        index, NodeFailed{attempt, pick(5) > 0, {.status = static_cast<int>(1 + pick(100))}}});
    tell(NodeReported{index, NodeStopped{attempt}});
  }

  void obey(std::size_t index, const NodeOrder& order) {
    Node& node = nodes_[index];
    if (const auto* start = std::get_if<StartNode>(&order)) {
      EXPECT_LT(node.attempt, 0) << "started while workers are left";
      node.attempt = start->attempt;
    } else if (const auto* stop = std::get_if<StopNode>(&order)) {
      node.attempt = -1;
      tell(NodeReported{index, NodeStopped{stop->attempt}});
    } else {
      EXPECT_FALSE(node.finished) << "told the end twice";
      node.finished = true;
      node.status = std::get<FinishNode>(order).verdict.status;
    }
  }

  std::mt19937 random_;
  std::vector<Node> nodes_;
  int max_restarts_;
  NodesCoordinator coordinator_;
};

TEST(NodesCoordinatorRandomTest, InvariantsHoldInAnyOrderOfEvents) {
  for (unsigned seed = 0; seed < 3000 && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    RandomNodes(seed).run();
  }
}

}  // namespace
}  // namespace distrun
