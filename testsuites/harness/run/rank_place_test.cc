#include "testsuites/harness/run/rank_place.h"

#include <gtest/gtest.h>

namespace distrun {
namespace {

Frame call(const std::string& function) {
  return {.function = function, .source = "/src/a_test.cc", .line = 7, .module = "/build/suites"};
}

ProcessStacks rank(std::vector<Frame> frames, char state = 'S') {
  return {.pid = 10,
          .name = "suites",
          .state = state,
          .threads = {{.tid = 10, .name = "suites", .frames = std::move(frames)}}};
}

TEST(RankPlaceTest, StartsAtTheTest) {
  const auto stacks = rank(
      {call("main"), call("testing::Test::Run"), call("A_hangs_Test::TestBody"), call("load")});
  EXPECT_EQ(place_of(1, {stacks}),
            "A_hangs_Test::TestBody (a_test.cc:7)\n"
            "load (a_test.cc:7)\n");
  // The frame of the test itself may be missing.
  const Frame caller = call("testing::internal::HandleExceptionsInMethodIfSupported");
  EXPECT_EQ(place_of(1, {rank({call("main"), caller, call("load")})}), "load (a_test.cc:7)\n");
  EXPECT_EQ(place_of(1, {rank({call("main"), call("load")})}),
            "main (a_test.cc:7)\nload (a_test.cc:7)\n");
}

TEST(RankPlaceTest, ShowsThreadsThatAreAtWork) {
  ProcessStacks stacks = rank({call("A_hangs_Test::TestBody")});
  stacks.threads.push_back({.tid = 11, .name = "b", .frames = {call("work")}});
  EXPECT_EQ(place_of(1, {stacks}),
            "A_hangs_Test::TestBody (a_test.cc:7)\n"
            "other threads of rank 1\n"
            "  work (a_test.cc:7)\n");
}

TEST(RankPlaceTest, StartsAtATestOfPythonAndOmitsTheThreadsOfItsHarness) {
  const auto python = [](const std::string& function) {
    return Frame{.function = function, .source = "/src/a_test.py", .line = 7, .module = ""};
  };
  ProcessStacks stacks =
      rank({python("main"), python("MultiProcessTestCase.run_test"),
            python("Rank.watch_test.<locals>.distrun_runs_test"), python("GroupTest.test_hangs")});
  for (const char* function : {"Rank.answer_questions.<locals>.distrun_answers",
                               "MultiProcessTestCase._event_listener", "work"}) {
    stacks.threads.push_back({.tid = 11, .name = "b", .frames = {python(function)}});
  }
  EXPECT_EQ(place_of(1, {stacks}),
            "GroupTest.test_hangs (/src/a_test.py:7)\n"
            "other threads of rank 1\n"
            "  work (/src/a_test.py:7)\n");
}

TEST(RankPlaceTest, ReportsThatARankIsStopped) {
  EXPECT_EQ(place_of(1, {rank({call("load")}, 'T')}),
            "it is stopped (SIGSTOP)\nload (a_test.cc:7)\n");
}

TEST(RankPlaceTest, IsEmptyIfNothingIsKnown) {
  EXPECT_EQ(place_of(1, {{.pid = 10, .problem = "ptrace is not permitted here"}}), "");
}

TEST(RankPlaceTest, RanksInTheSameCollectiveShareALine) {
  EXPECT_EQ(collectives_text({{0, "allreduce"}, {1, "barrier\nsend\n"}, {2, "allreduce"}}),
            "  collectives\n"
            "    ranks 0, 2: allreduce\n"
            "    rank 1: barrier\n"
            "      send\n");
  EXPECT_EQ(collectives_text({}), "");
}

TEST(RankPlaceTest, NamesTheFunctionsOfACrash) {
  const auto name = [](const std::string&, std::uint64_t address) {
    return address == 1   ? call("die")
           : address == 2 ? call("A_dies_Test::TestBody")
           : address == 3 ? call("testing::internal::HandleExceptionsInMethodIfSupported")
                          : call("main");
  };
  EXPECT_EQ(with_named_backtraces("#0 f (a+0x1)\n#1 f (a+0x2)\n#2 f (a+0x4)\nend\n", name),
            "#0 die (a_test.cc:7)\n#1 A_dies_Test::TestBody (a_test.cc:7)\nend\n");
  EXPECT_EQ(with_named_backtraces("#0 f (a+0x1)\n#1 f (a+0x3)\n#2 f (a+0x4)\n", name),
            "#0 die (a_test.cc:7)\n");
}

TEST(RankPlaceTest, LineStartsWithTheFewestRanks) {
  const auto waits = rank({call("main"), call("A_hangs_Test::TestBody"), call("all_reduce")});
  const auto loads = rank({call("main"), call("A_hangs_Test::TestBody"), call("load")});
  EXPECT_EQ(places_of({{0, {waits}}, {1, {loads}}, {2, {waits}}}).line,
            "rank 1 in load (a_test.cc:7); ranks 0, 2 in all_reduce (a_test.cc:7)");
}

}  // namespace
}  // namespace distrun
