// Tests whose ranks are on two nodes.
#include "testsuites/harness/nodes/remote_node.h"

#include <memory>
#include <optional>

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
  AgentNode(boost::asio::io_context& io, const LocalNode::Options& options, Handlers handlers)
      : RemoteNode(io,
                   {.name = "node 1 (other)",
                    .programs = options.hosts.programs.size(),
                    .send = [this](const std::string& text) { agent.send(text); },
                    .on_signal = [this](int signal) { signals.push_back(signal); },
                    .on_garbage = [](const Error& error) { ADD_FAILURE() << error.message; }},
                   std::move(handlers)),
        agent(io, options) {
    agent.on_text = [this](const std::string& text) { take(text); };
    agent.on_end = [this] { lose("its connection has ended"); };
  }

  void end_all() override {
    RemoteNode::end_all();
    agent.end();
  }

  testing::ForkedAgent agent;
  std::vector<int> signals;
};

class RemoteNodeTest : public testing::FakeHostFixture {
 protected:
  // Runs on this node and on another one.
  TestRunner::Options two_nodes() { return two_nodes(FAKE_TEST_HOST); }

  // The other node has this program.
  TestRunner::Options two_nodes(const std::string& program) {
    TestRunner::Options its = options();
    its.store_host = its.store_address = "127.0.0.1";
    its.more_nodes = {[this, program](boost::asio::io_context& io, TestNode::Handlers handlers) {
      auto node = std::make_unique<AgentNode>(
          io,
          LocalNode::Options{.hosts = {.programs = {program},
                                       .environment = Environment::from(environ),
                                       .ready_timeout = seconds(50),
                                       .losses_max = 20},
                             .folder = its_folder_.path()},
          std::move(handlers));
      node_ = node.get();
      return node;
    }};
    return its;
  }

  testing::Folder its_folder_;
  AgentNode* node_ = nullptr;
};

TEST_F(RemoteNodeTest, RunsTheSecondRankOnTheOtherNode) {
  const TestResult result = run_one("has_two_ranks", two_nodes());
  EXPECT_EQ(result.status, TestStatus::kPassed) << result.reason;
}

TEST_F(RemoteNodeTest, ATestWithOneRankRunsHere) {
  const TestResult result = run_one("passes", two_nodes());
  EXPECT_EQ(result.status, TestStatus::kPassed) << result.reason;
}

}  // namespace
}  // namespace distrun
