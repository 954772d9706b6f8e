#include "launcher/report/run_snapshot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace distrun {
namespace {

using std::chrono::milliseconds;
using ::testing::EndsWith;
using ::testing::HasSubstr;

constexpr std::size_t kAllWorkers = 100;

RunSnapshot two_ranks(int at_ms) {
  return {.about = "2 workers: ./train",
          .at = milliseconds(at_ms),
          .workers = {{.rank = 0,
                       .pid = 4711,
                       .state = "running",
                       .run_time = milliseconds(31'200),
                       .cpu_time = milliseconds(30'000),
                       .memory_bytes = 3 << 19,
                       .processes = 2,
                       .output_bytes = 5000},
                      {.rank = 1, .state = "not started yet"}}};
}

TEST(RunSnapshotTest, SurvivesARoundTripThroughJson) {
  RunSnapshot snapshot = two_ranks(5);
  snapshot.attempt = 3;
  const auto read = parse_snapshot(snapshot_json(snapshot));
  ASSERT_TRUE(read);
  EXPECT_EQ(snapshot_json(*read), snapshot_json(snapshot));
  EXPECT_EQ(read->workers[0].cpu_time, milliseconds(30'000));
  EXPECT_EQ(read->workers[1].memory_bytes, std::nullopt);
  EXPECT_EQ(read->attempt, 3);
}

TEST(RunSnapshotTest, RejectsMalformedAnswers) {
  for (const char* text :
       {"", "[]", "{}", R"({"about": 1, "attempt": 0, "at_ms": 0, "workers": []})",
        R"({"about": "", "attempt": 0, "at_ms": 0, "workers": [{"rank": 0}]})"}) {
    const auto read = parse_snapshot(text);
    ASSERT_FALSE(read) << text;
    EXPECT_EQ(read.error().kind, ErrorKind::kProtocol);
    EXPECT_EQ(read.error().message,
              "the run's answer is malformed; does the run use another version of distrun?");
  }
}

TEST(RunSnapshotTest, HasTheStatesOfTheWorkerTable) {
  const auto workers = snapshots_of(
      {{.rank = Rank(4),
        .pid = 7,
        .run_time = milliseconds(3),
        .stat = ProcessStat{.state = 'T', .cpu_time = milliseconds(2), .resident_bytes = 9},
        .processes = 1},
       {.rank = Rank(5), .pid = 8, .end = ExitedWith{3}, .stat = ProcessStat{}}},
      {12, 0});
  EXPECT_EQ(workers[0].state, "STOPPED");
  EXPECT_EQ(workers[0].rank, 4);
  EXPECT_EQ(workers[0].memory_bytes, 9U);
  EXPECT_EQ(workers[0].output_bytes, 12U);
  EXPECT_EQ(workers[1].state, "exit code 3");
  EXPECT_EQ(workers[1].cpu_time, std::nullopt);
}

TEST(RunSnapshotTest, RatesNeedTwoSnapshots) {
  EXPECT_EQ(top_table(two_ranks(0), nullptr, kAllWorkers),
            "2 workers: ./train\n"
            "rank   pid    time  CPU   memory  output  processes  state\n"
            "   0  4711  31.2 s    -  1.5 MiB       -          2  running\n"
            "   1     -       -    -        -       -          -  not started yet\n");
  const RunSnapshot before = two_ranks(1000);
  RunSnapshot now = two_ranks(3000);
  now.attempt = 1;
  now.workers[0].cpu_time = milliseconds(33'000);
  now.workers[0].output_bytes += 4096;
  EXPECT_EQ(top_table(now, &before, kAllWorkers),
            "2 workers: ./train; restart 1\n"
            "rank   pid    time   CPU   memory     output  processes  state\n"
            "   0  4711  31.2 s  150%  1.5 MiB  2.0 KiB/s          2  running\n"
            "   1     -       -     -        -          -          -  not started yet\n");
}

TEST(RunSnapshotTest, RestartedWorkerHasNoRates) {
  const RunSnapshot before = two_ranks(1000);
  RunSnapshot now = two_ranks(3000);
  now.workers[0].pid = 4720;
  now.workers[0].cpu_time = milliseconds(10);
  EXPECT_THAT(top_table(now, &before, kAllWorkers), HasSubstr("4720  31.2 s    -  1.5 MiB"));
}

TEST(RunSnapshotTest, CommandOfSeveralLinesIsShownInOne) {
  RunSnapshot snapshot = two_ranks(0);
  snapshot.about = "1 worker: sh -c 'a\nb'";
  EXPECT_THAT(top_table(snapshot, nullptr, kAllWorkers),
              ::testing::StartsWith("1 worker: sh -c 'a\\x0ab'\nrank"));
}

TEST(RunSnapshotTest, ReportsTheNumberOfOmittedWorkers) {
  EXPECT_THAT(top_table(two_ranks(0), nullptr, 1), EndsWith("running\n… and 1 more\n"));
}

TEST(RunSnapshotTest, ShowsTheLastCollectives) {
  RunSnapshot snapshot = two_ranks(0);
  snapshot.workers[0].collective = "in all_reduce 31";
  const auto parsed = parse_snapshot(snapshot_json(snapshot));
  ASSERT_TRUE(parsed);
  const std::string table = top_table(*parsed, nullptr, kAllWorkers);
  EXPECT_THAT(table, HasSubstr("collective  state"));
  EXPECT_THAT(table, HasSubstr("in all_reduce 31  running"));
  EXPECT_THAT(table, HasSubstr("               -  "));
}

}  // namespace
}  // namespace distrun
