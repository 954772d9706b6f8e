#include "launcher/nodes/node_messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace distrun {
namespace {

using ::testing::HasSubstr;

const NodesVerdict kVerdict{.status = 7,
                            .node = 1,
                            .host = "gpu-7",
                            .headline = "rank 3 failed: exit code 7",
                            .details = "  pid 4711\n",
                            .notes = "  node 2 is lost too\n"};

// Of two ranks: one has ended, with digests, and one has not.
std::vector<RankOperation> operations() {
  Operation operation{.number = 57,
                      .op = "all_reduce",
                      .dtype = "Float",
                      .sizes = "[1000]",
                      .elements = 1000,
                      .element_bytes = 4,
                      .group = "0",
                      .group_rank = 4,
                      .group_size = 8,
                      .sequence = 31,
                      .began = OperationTime(std::chrono::nanoseconds(1790000000123456789))};
  std::vector<RankOperation> all{{Rank(4), operation}};
  operation.group_rank = -1;  // Unknown.
  operation.began -= std::chrono::seconds(1);
  operation.ended = operation.began + std::chrono::seconds(2);
  operation.input_digest = ~std::uint64_t{0};
  operation.output_digests = BlockDigests{1, 2, 0xFFFFFFFF};
  all.push_back({Rank(5), operation});
  return all;
}

NodeMessage sent(const NodeMessage& message) {
  std::string line = to_line(message);
  EXPECT_EQ(line.find('\n'), line.size() - 1) << "a message is one line";
  line.pop_back();
  return node_message_from(line).value();
}

TEST(NodeMessagesTest, SurviveARoundTrip) {
  const std::vector<NodeMessage> all = {
      JoinRequest{.command = "distrun test",
                  .run_id = "run 7",
                  .node = 1,
                  .nodes = 3,
                  .workers = 4,
                  .max_restarts = 2,
                  .hang_after_ms = 1500,
                  .heartbeat_ms = 500,
                  .records = "--digest",
                  .role = "trainer",
                  .host = "gpu-7"},
      JoinAccepted{"gpu-6"},
      FinishNode{
          NodesVerdict{.status = 130, .headline = "lost", .signal = 2, .is_of_node_0 = false}},
      JoinRefused{"node 1 is here already"},
      NodeFailed{.attempt = 2, .may_restart = true, .verdict = kVerdict},
      NodeQuiet{.attempt = 2, .is_quiet = false},
      NodeSucceeded{3},
      NodeStopped{4},
      StartNode{
          .attempt = 1, .rank_base = 4, .world_size = 8, .role_rank_base = 1, .role_world_size = 5},
      StopNode{.attempt = 5, .is_last = false, .verdict = kVerdict},
      FinishNode{kVerdict},
      AskTime{17},
      TellTime{17, OperationTime(std::chrono::nanoseconds(1790000000123456789))},
      NodeOperations{.attempt = 2, .operations = operations(), .missed = 3},
      RankFlight{.attempt = 2,
                 .rank = Rank(4),
                 .operations = {operations()[0].operation},
                 .members = {{"0", {0, 4, 7}}, {"1", {}}}},
      RankFlight{.attempt = 2, .rank = Rank(4)},
      NodeText{.piece = R"({"text": "a \"b\\)", .is_last = false},
      NodeText{.piece = ""}};
  for (const NodeMessage& message : all) EXPECT_EQ(sent(message), message) << to_line(message);
}

TEST(NodeMessagesTest, VerdictNamesItsNode) {
  EXPECT_EQ(describe(kVerdict), "node 1 (gpu-7): rank 3 failed: exit code 7");
}

TEST(NodeMessagesTest, CutsLongOutputOfWorkers) {
  // JSON writes six bytes for each of these.
  NodesVerdict verdict{.host = std::string(100'000, '\x01'),
                       .headline = std::string(100'000, '\x02'),
                       .details = std::string(1'000'000, '\x03'),
                       .notes = std::string(100'000, '\x04')};
  EXPECT_LE(to_line(StopNode{.verdict = verdict}).size(), kNodeMessageBytesMax);
}

TEST(NodeMessagesTest, CutsAtTheEndOfALine) {
  std::string lines;
  for (int i = 0; i < 2000; ++i) lines += "line\n";
  const auto got = std::get<FinishNode>(sent(FinishNode{NodesVerdict{.details = lines}}));
  EXPECT_LT(got.verdict.details.size(), lines.size());
  EXPECT_TRUE(got.verdict.details.ends_with("line\n"));
}

TEST(NodeMessagesTest, ReplacesInvalidUtf8) {
  const auto got = std::get<FinishNode>(sent(FinishNode{NodesVerdict{.details = "a\xff z"}}));
  EXPECT_THAT(got.verdict.details, HasSubstr(" z"));
}

TEST(NodeMessagesTest, ReadsTheVersionOfOtherProtocols) {
  const auto message = node_message_from(R"({"type": "join", "protocol": 9, "what": []})");
  EXPECT_EQ(std::get<JoinRequest>(message.value()).protocol, 9);
}

TEST(NodeMessagesTest, RejectsInvalidMessages) {
  const std::string join =
      R"("protocol": 7, "command": "", "run_id": "", "nodes": 2, "max_restarts": 0, "hang_after_ms": 0, "heartbeat_ms": 0, "records": "", "role": "", "host": "")";
  for (const std::string& line : std::vector<std::string>{
           "",
           "hello",
           "[]",
           "7",
           "{}",
           R"({"type": 7})",
           R"({"type": "start"})",
           R"({"type": "stopped", "attempt": -1})",
           R"({"type": "stopped", "attempt": "0"})",
           R"({"type": "stopped", "attempt": 1e99})",
           R"({"type": "nothing"})",
           R"({"type": "join", "node": -1, "workers": 1, )" + join + "}",
           R"({"type": "join", "node": 1, "workers": 0, )" + join + "}",
           R"({"type": "start", "attempt": 0, "rank_base": 2, "world_size": 2,
               "role_rank_base": 0, "role_world_size": 2})",
           R"({"type": "time", "question": 1, "time": -1})",
           R"({"type": "ask_time"})",
           R"({"type": "text", "piece": ""})",
           R"({"type": "text", "piece": 7, "is_last": true})",
           R"({"type": "operations", "attempt": 0, "missed": 0, "time": 0, "calls": [],
               "ranks": [[0, 0, 0, 1, 0, null, true, null, null]]})",
           R"({"type": "operations", "attempt": 0, "missed": 0, "time": 0,
               "calls": [["0", 2, 0, "all_reduce", "", "", 0, 0, -1]], "ranks": []})",
           R"({"type": "operations", "attempt": 0, "missed": 0, "time": 0,
               "calls": [["0", 2, 1, "all_reduce", "", "", 0, 0, -1]],
               "ranks": [[0, 0, 0, 1, -1, null, true, null, null]]})",
           R"({"type": "operations", "attempt": 0, "missed": 0, "time": 0,
               "calls": [["0", 2, 1, "all_reduce", "", "", 0, 0, -1]],
               "ranks": [[0, 0, 0, 1, 0, null, true, null, [1, 2]]]})",
           R"({"type": "flight", "rank": 0, "members": {}})",
           R"({"type": "flight", "rank": -1, "members": {},
               "operations": {"attempt": 0, "missed": 0, "time": 0, "calls": [], "ranks": []}})",
           R"({"type": "flight", "rank": 0, "members": {"0": [-1]},
               "operations": {"attempt": 0, "missed": 0, "time": 0, "calls": [], "ranks": []}})",
           R"({"type": "flight", "rank": 1, "members": {},
               "operations": {"attempt": 0, "missed": 0, "time": 0,
                              "calls": [["0", 2, 1, "all_reduce", "", "", 0, 0, -1]],
                              "ranks": [[0, 0, 0, 1, 0, null, true, null, null]]}})",
           R"({"type": "finish", "verdict": {"status": 256, "node": 0, "host": "",
               "headline": "", "details": "", "notes": ""}})"}) {
    const auto message = node_message_from(line);
    ASSERT_FALSE(message) << line;
    EXPECT_EQ(message.error().kind, ErrorKind::kProtocol);
  }
}

TEST(NodeMessagesTest, RejectsDeepNesting) {
  EXPECT_FALSE(node_message_from(std::string(kNodeMessageBytesMax, '[')));
}

}  // namespace
}  // namespace distrun
