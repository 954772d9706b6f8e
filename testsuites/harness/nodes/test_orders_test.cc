#include "testsuites/harness/nodes/test_orders.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace distrun {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

template <class T>
T order_again(const T& order) {
  const auto parsed = parse_test_order(to_text(TestOrder(order)));
  EXPECT_TRUE(parsed) << parsed.error().message;
  return std::get<T>(*parsed);
}

template <class T>
T report_again(const T& report) {
  const auto parsed = parse_test_report(to_text(TestReport(report)));
  EXPECT_TRUE(parsed) << parsed.error().message;
  return std::get<T>(*parsed);
}

TEST(TestOrdersTest, APartArrivesWithAllItsOptions) {
  const PartOptions sent{.test = {.id = "gloo.CommTest.test_sum",
                                  .needs = {.ranks = 4, .expected_ends = {{1, KilledBy{9}}}}},
                         .program = 1,
                         .first = 2,
                         .count = 2,
                         .ranks = 4,
                         .node = 1,
                         .nodes = 2,
                         .backend = "shm",
                         .seed = ~std::uint64_t{0},
                         .first_key = 17,
                         .store_port = 4711,
                         .fresh = true,
                         .is_program = true,
                         .problem = "no port"};
  const PartOptions got = order_again(BeginPart{sent}).options;
  EXPECT_EQ(got.test.id, sent.test.id);
  EXPECT_EQ(got.test.needs.expected_ends, sent.test.needs.expected_ends);
  EXPECT_EQ(got.program, 1u);
  EXPECT_EQ(got.first, 2);
  EXPECT_EQ(got.count, 2);
  EXPECT_EQ(got.ranks, 4);
  EXPECT_EQ(got.node, 1);
  EXPECT_EQ(got.nodes, 2);
  EXPECT_EQ(got.backend, "shm");
  EXPECT_EQ(got.seed, sent.seed);
  EXPECT_EQ(got.first_key, 17u);
  EXPECT_EQ(got.store_port, 4711);
  EXPECT_TRUE(got.fresh);
  EXPECT_TRUE(got.is_program);
  EXPECT_EQ(got.problem, "no port");
}

TEST(TestOrdersTest, OrdersArrive) {
  order_again(StartHosts{});
  order_again(EndTests{});
  const auto task = order_again(HostTask{HostTask::Kind::kEnd, 3});
  EXPECT_EQ(task.kind, HostTask::Kind::kEnd);
  EXPECT_EQ(task.program, 3u);
  const auto order = order_again(PartOrder{PartOrder::Kind::kAsk, 17, {2, 3}});
  EXPECT_EQ(order.kind, PartOrder::Kind::kAsk);
  EXPECT_EQ(order.key, 17u);
  EXPECT_THAT(order.ranks, ElementsAre(2, 3));
}

TEST(TestOrdersTest, FactsAboutARankArrive) {
  RankFacts sent;
  sent.end = KilledBy{11};
  sent.crashed_in = "load (my_test.py:12)";
  sent.host_lost = sent.was_ended = sent.was_late = sent.is_done = sent.sent_garbage = true;
  sent.assertions = 7;
  sent.failures = {{.file = "a.cc", .line = 3, .message = "no", .at = WallTime{}}};
  sent.failures_lost = 2;
  sent.skip_reason = "later";
  sent.stands_at = "main";
  sent.told = "in a barrier";
  sent.output = "one\ntwo\n";
  sent.output_lost = {.lines = 5, .bytes = 60};
  sent.collectives = CollectiveRecord{.counted = {{.op = "allreduce", .sizes = {{4, 2}}}}};
  sent.leaked = {"17 (sleep)"};
  sent.began_at = WallTime(std::chrono::microseconds(12));
  const auto told = report_again(RankFactsTold{17, 3, sent});
  EXPECT_EQ(told.key, 17u);
  EXPECT_EQ(told.rank, 3);
  const RankFacts& got = told.facts;
  EXPECT_EQ(got.end, sent.end);
  EXPECT_EQ(got.crashed_in, sent.crashed_in);
  EXPECT_TRUE(got.host_lost && got.was_ended && got.was_late && got.is_done && got.sent_garbage);
  EXPECT_EQ(got.assertions, 7);
  ASSERT_THAT(got.failures, SizeIs(1));
  EXPECT_EQ(got.failures[0].message, "no");
  EXPECT_EQ(got.failures_lost, 2);
  EXPECT_EQ(got.skip_reason, "later");
  EXPECT_EQ(got.stands_at, "main");
  EXPECT_EQ(got.told, "in a barrier");
  EXPECT_EQ(got.output, sent.output);
  EXPECT_EQ(got.output_lost, sent.output_lost);
  ASSERT_TRUE(got.collectives);
  EXPECT_EQ(got.collectives->counted[0].op, "allreduce");
  EXPECT_THAT(got.leaked, ElementsAre("17 (sleep)"));
  EXPECT_EQ(got.began_at, sent.began_at);
  EXPECT_EQ(got.ended_at, std::nullopt);
  const RankFacts nothing = report_again(RankFactsTold{}).facts;
  EXPECT_FALSE(nothing.end);
  EXPECT_FALSE(nothing.was_ended);
}

TEST(TestOrdersTest, WhatRanksAreDoingArrives) {
  const PartView sent{
      .stacks = {{.rank = 2,
                  .processes = {{.pid = 5,
                                 .name = "rank",
                                 .state = 'T',
                                 .threads = {{.tid = 6, .frames = {{"load", "a.cc", 7, "prog"}}}}}},
                  .awaited = "for ready/3"}},
      .sockets = {{.rank = 2, .address = "10.0.0.2:1", .peer = "10.0.0.1:2", .unread = 80}},
      .asked = {2}};
  const auto got = report_again(PartReport{PartReport::Kind::kLooked, 17, sent});
  EXPECT_EQ(got.kind, PartReport::Kind::kLooked);
  ASSERT_THAT(got.view.stacks, SizeIs(1));
  EXPECT_EQ(got.view.stacks[0].awaited, "for ready/3");
  EXPECT_EQ(got.view.stacks[0].processes[0].state, 'T');
  EXPECT_EQ(got.view.stacks[0].processes[0].threads[0].frames,
            sent.stacks[0].processes[0].threads[0].frames);
  ASSERT_THAT(got.view.sockets, SizeIs(1));
  EXPECT_EQ(got.view.sockets[0].unread, 80u);
  EXPECT_THAT(got.view.asked, ElementsAre(2));
}

TEST(TestOrdersTest, OtherReportsArrive) {
  const auto host = report_again(HostReport{HostReport::Kind::kGivenUp, 1, "too often"});
  EXPECT_EQ(host.kind, HostReport::Kind::kGivenUp);
  EXPECT_EQ(host.program, 1u);
  EXPECT_EQ(host.text, "too often");
  const auto rank = report_again(RankReport{RankReport::Kind::kCollective, 17, 3, "barrier"});
  EXPECT_EQ(rank.kind, RankReport::Kind::kCollective);
  EXPECT_EQ(rank.rank, 3);
  EXPECT_EQ(rank.text, "barrier");
  EXPECT_EQ(report_again(NodeSignaled{15}).signal, 15);
}

TEST(TestOrdersTest, TextsAreAsciiAlsoIfOutputIsNot) {
  RankFacts facts;
  facts.output = "caf\xc3\xa9 \xff";
  const std::string text = to_text(TestReport(RankFactsTold{1, 0, facts}));
  EXPECT_TRUE(std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; }));
  EXPECT_EQ(std::get<RankFactsTold>(*parse_test_report(text)).facts.output,
            "caf\xc3\xa9 \xef\xbf\xbd");
}

TEST(TestOrdersTest, OtherTextsAreRefused) {
  for (const char* text :
       {"", "{", "[]", R"({"order": "dance"})", R"({"order": "part", "kind": 99, "key": 1})",
        R"({"order": "host", "kind": -1, "program": 0})", R"({"report": "rank"})"}) {
    EXPECT_EQ(parse_test_order(text).error().kind, ErrorKind::kProtocol) << text;
    EXPECT_EQ(parse_test_report(text).error().kind, ErrorKind::kProtocol) << text;
  }
  std::string text = to_text(TestOrder(BeginPart{{.test = {.id = "a.B.c"}, .count = 1}}));
  const auto count = text.find("\"count\":1");
  ASSERT_NE(count, std::string::npos);
  text.replace(count, 9, "\"count\":2");  // Of one rank.
  EXPECT_FALSE(parse_test_order(text));
}

}  // namespace
}  // namespace distrun
