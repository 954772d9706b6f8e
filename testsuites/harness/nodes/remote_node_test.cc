// Tests whose ranks are on two nodes.
#include "testsuites/harness/nodes/remote_node.h"

#include <array>
#include <memory>
#include <optional>

#include <boost/asio/buffer.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/read.hpp>
#include <fcntl.h>
#include <sys/stat.h>

#include "testsuites/harness/test/fake_host.h"
#include "testsuites/harness/test/forked_agent.h"

namespace distrun {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;
using testing::texts;

// With the process that runs its ranks.
class AgentNode : public RemoteNode {
 public:
  struct Heard {
    std::vector<int> signals;
    std::vector<std::string> garbage;
  };

  AgentNode(boost::asio::io_context& loop, const LocalNode::Options& options, Handlers handlers,
            Heard& heard)
      : RemoteNode(loop,
                   {.name = "node 1 (other)",
                    .host = "other",
                    .programs = options.hosts.programs.size(),
                    .send = [this](const std::string& text) { agent.send(text); },
                    .clock_ahead = [this] { return clock_ahead; },
                    .on_signal = [&heard](int signal) { heard.signals.push_back(signal); },
                    .on_garbage =
                        [&heard](const Error& error) { heard.garbage.push_back(error.message); }},
                   std::move(handlers)),
        io(loop),
        agent(loop, options) {
    agent.on_text = [this](const std::string& text) {
      const bool has_facts = text.find("\"report\":\"facts\"") != text.npos;
      has_facts&& instead_of_facts ? instead_of_facts() : take(text);
    };
    agent.on_end = [this] { lose("its connection has ended"); };
  }

  void end_all() override {
    RemoteNode::end_all();
    agent.end();
  }

  boost::asio::io_context& io;
  testing::ForkedAgent agent;
  std::chrono::microseconds clock_ahead{0};
  std::function<void()> instead_of_facts;
};

class RemoteNodeTest : public testing::FakeHostFixture {
 protected:
  // Runs on this node and on another one.
  TestRunner::Options two_nodes() { return two_nodes(FAKE_TEST_HOST); }

  // The other node has this program.
  TestRunner::Options two_nodes(const std::string& program) {
    TestRunner::Options its = options();
    its.host = "here";
    its.store_host = its.store_address = "127.0.0.1";
    its.more_nodes = {[this, program](boost::asio::io_context& io, TestNode::Handlers handlers) {
      auto node = std::make_unique<AgentNode>(
          io,
          LocalNode::Options{.hosts = {.programs = {program},
                                       .environment = Environment::from(environ),
                                       .ready_timeout = seconds(50),
                                       .losses_max = its_losses_max_},
                             .host = "other",
                             .folder = its_folder_.path()},
          std::move(handlers), heard_);
      node_ = node.get();
      return node;
    }};
    return its;
  }

  testing::Folder its_folder_;
  int its_losses_max_ = 20;
  AgentNode* node_ = nullptr;
  AgentNode::Heard heard_;
};

TEST_F(RemoteNodeTest, RanksAreOnBothNodes) {
  const TestResult result = run_one("has_two_ranks", two_nodes());
  EXPECT_EQ(result.status, TestStatus::kPassed) << result.reason;
  ASSERT_THAT(result.attempts, SizeIs(1));
  ASSERT_THAT(result.attempts[0].ranks, SizeIs(2));
  EXPECT_EQ(result.attempts[0].ranks[0].host, "here");
  EXPECT_EQ(result.attempts[0].ranks[1].host, "other");
  EXPECT_EQ(result.attempts[0].ranks[1].node, 1);
}

TEST_F(RemoteNodeTest, ATestWithOneRankRunsHere) {
  const auto results = run(the({"passes"}), two_nodes());
  ASSERT_THAT(texts(results), ElementsAre("passes passed"));
  EXPECT_EQ(results[0].attempts[0].ranks[0].host, "");
}

TEST_F(RemoteNodeTest, TimesAreThoseOfThisClock) {
  on_event_ = [this](TestRunner&, const TestEvent&) { node_->clock_ahead = std::chrono::hours(1); };
  const TestResult result = run_one("has_a_second_that_fails", two_nodes());
  const RankResult& there = result.attempts[0].ranks[1];
  ASSERT_TRUE(there.began && there.ended);
  // The clock of the other node is the same one.
  EXPECT_LT(*there.ended, result.attempts[0].began - std::chrono::minutes(30));
  EXPECT_LE(*there.began, *there.ended);
}

TEST_F(RemoteNodeTest, AFailureThereFailsTheTest) {
  const TestResult result = run_one("has_a_second_that_fails", two_nodes());
  EXPECT_EQ(result.status, TestStatus::kFailed);
  EXPECT_THAT(result.reason, StartsWith("rank 1 failed: ")) << result.reason;
}

TEST_F(RemoteNodeTest, ASkipThereDiverges) {
  const TestResult result = run_one("has_a_second_that_skips", two_nodes());
  EXPECT_EQ(result.reason, "diverged: rank 1 skipped, rank 0 did not");
}

TEST_F(RemoteNodeTest, AHangThereShowsWhereTheRankIs) {
  timeout_ = milliseconds(500);
  const TestResult result = run_one("has_a_second_that_hangs", two_nodes());
  EXPECT_EQ(result.status, TestStatus::kFailed);
  EXPECT_THAT(result.reason, StartsWith("timed out: rank 1 hung in ")) << result.reason;
  EXPECT_THAT(result.attempts[0].ranks[1].stands_at, StartsWith("here\n"));
  EXPECT_THAT(result.attempts[0].where.stacks, HasSubstr("sigwait"));
}

TEST_F(RemoteNodeTest, AProcessThatIsLeftThereFailsTheTest) {
  const TestResult result = run_one("has_a_second_that_leaves_a_process", two_nodes());
  EXPECT_THAT(result.reason, StartsWith("rank 1 failed: leaked processes: ")) << result.reason;
}

TEST_F(RemoteNodeTest, AHostThatDiesThereIsReplaced) {
  TestRunner::Options its = two_nodes();
  its.jobs = 2;  // One after the other.
  const auto results = run(the({"has_a_second_that_kills_its_host", "has_two_ranks"}), its);
  EXPECT_THAT(texts(results),
              ElementsAre("has_a_second_that_kills_its_host failed", "has_two_ranks passed"));
  EXPECT_THAT(notices_, ElementsAre(StartsWith("node 1 (other): the test program ")));
  EXPECT_EQ(results[0].reason, "rank 1 crashed: the process that forked it is lost");
}

// The first attempt still waits for its rank on the other node when the host dies again.
TEST_F(RemoteNodeTest, AHostHereMayDieAgainBeforeTheRanksThereHaveEnded) {
  TestRunner::Options its = two_nodes();
  its.jobs = 3;
  const auto results =
      run(the({"has_a_first_that_kills_its_host", "passes", "kills_its_host"}), its);
  EXPECT_THAT(texts(results), ElementsAre("has_a_first_that_kills_its_host failed", "passes passed",
                                          "kills_its_host failed"));
}

TEST_F(RemoteNodeTest, AHostThatDiesTooOftenThereIsGivenUp) {
  its_losses_max_ = 0;
  TestRunner::Options its = two_nodes();
  its.jobs = 2;
  const auto results = run(the({"has_a_second_that_kills_its_host", "has_two_ranks"}), its);
  ASSERT_THAT(results, SizeIs(2));
  EXPECT_THAT(results[1].reason, HasSubstr("cannot be used: it ended too often"));
  EXPECT_THAT(results[1].reason, StartsWith("node 1 (other): "));
}

TEST_F(RemoteNodeTest, ALostNodeFailsItsRanks) {
  on_event_ = [this](TestRunner&, const TestEvent& event) {
    if (std::holds_alternative<AttemptBegun>(event)) node_->lose("its connection has ended");
  };
  const TestResult result = run_one("has_a_second_that_hangs", two_nodes());
  EXPECT_EQ(result.status, TestStatus::kFailed);
  EXPECT_EQ(result.reason, "rank 1 crashed: its connection has ended");
}

TEST_F(RemoteNodeTest, NoTestStartsOnALostNode) {
  on_event_ = [this](TestRunner& runner, const TestEvent& event) {
    if (!std::holds_alternative<TestEnded>(event)) return;
    node_->lose("its connection has ended");
    runner.stop("node 1 is lost");
  };
  TestRunner::Options its = two_nodes();
  its.jobs = 2;
  const auto results = run(the({"has_two_ranks", "has_a_second_that_hangs"}), its);
  EXPECT_THAT(texts(results),
              ElementsAre("has_two_ranks passed", "has_a_second_that_hangs interrupted 0"));
}

TEST_F(RemoteNodeTest, AnInterruptEndsTheRanksThere) {
  on_event_ = [](TestRunner& runner, const TestEvent& event) {
    if (std::holds_alternative<AttemptBegun>(event)) runner.interrupt();
  };
  const TestResult result = run_one("has_a_second_that_hangs", two_nodes());
  EXPECT_EQ(result.status, TestStatus::kInterrupted);
}

TEST_F(RemoteNodeTest, ShowsWhatRanksThereDoOnRequest) {
  const std::string path = hosts_.path() + "/held.place";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  std::optional<boost::asio::posix::stream_descriptor> held;
  std::array<char, 2> both{};
  std::string seen;
  on_event_ = [&](TestRunner& runner, const TestEvent& event) {
    if (std::holds_alternative<AttemptBegun>(event)) {
      held.emplace(node_->io, ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK));
      boost::asio::async_read(*held, boost::asio::buffer(both),
                              [&](boost::system::error_code error, std::size_t) {
                                if (!error) runner.look();
                              });
    } else if (const auto* places = std::get_if<PlacesRead>(&event)) {
      seen = places->where.stacks;
      held.reset();
      runner.interrupt();
    }
  };
  run_one("holds_a_place", two_nodes());
  EXPECT_THAT(seen, HasSubstr("ranks 0, 1: in a barrier"));
}

TEST_F(RemoteNodeTest, ASignalThereIsReported) {
  on_event_ = [this](TestRunner&, const TestEvent& event) {
    if (std::holds_alternative<AttemptBegun>(event)) {
      node_->take(to_text(TestReport(NodeSignaled{SIGTERM})));
    }
  };
  run_one("has_two_ranks", two_nodes());
  EXPECT_THAT(heard_.signals, ElementsAre(SIGTERM));
  EXPECT_THAT(heard_.garbage, IsEmpty());
}

TEST_F(RemoteNodeTest, ANodeThatSendsSomethingElseIsReported) {
  on_event_ = [this](TestRunner&, const TestEvent& event) {
    if (std::holds_alternative<AttemptBegun>(event)) node_->take("rubbish");
  };
  run_one("has_two_ranks", two_nodes());
  EXPECT_THAT(heard_.garbage, ElementsAre(HasSubstr("texts that no node of a run of tests sends")));
}

// The node owes the facts about its rank.
TEST_F(RemoteNodeTest, ANodeThatIsLostAtTheEndGivesItsReason) {
  on_event_ = [this](TestRunner&, const TestEvent& event) {
    if (!std::holds_alternative<AttemptBegun>(event)) return;
    node_->instead_of_facts = [this] { node_->lose("its connection has ended"); };
  };
  const TestResult result = run_one("has_two_ranks", two_nodes());
  EXPECT_EQ(result.reason, "rank 1 crashed: its connection has ended");
}

TEST_F(RemoteNodeTest, OtherTestsThereAreAnError) {
  EXPECT_THAT(problem_of(two_nodes(host("has_no_tests"))),
              HasSubstr("; use the same build of the tests on all nodes"));
}

TEST_F(RemoteNodeTest, AProgramThatIsNoTestHostThereIsAnError) {
  EXPECT_THAT(problem_of(two_nodes("/bin/true")), StartsWith("node 1 (other): "));
}

}  // namespace
}  // namespace distrun
