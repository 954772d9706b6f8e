#include "launcher/report/run_trace.h"

#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace distrun {
namespace {

using std::chrono::microseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TraceTime at(int time) { return TraceTime(microseconds(time)); }

LaunchPlan traced_plan() {
  LaunchPlan plan;
  plan.options.run_id = "story";
  for (int i = 0; i < 2; ++i) plan.workers.push_back({Rank(2 + i), LocalRank(i), {"./worker"}});
  return plan;
}

Operation all_reduce(std::uint64_t number, int began, std::optional<int> ended = std::nullopt) {
  Operation made{.number = number,
                 .op = "all_reduce",
                 .dtype = "Float",
                 .sizes = "[4]",
                 .elements = 4,
                 .group = "0",
                 .group_rank = 1,
                 .group_size = 4,
                 .sequence = static_cast<std::uint32_t>(number),
                 .began = at(began)};
  if (ended) made.ended = at(*ended);
  return made;
}

class RunTraceTest : public ::testing::Test {
 protected:
  void start(int worker, int time, int attempt = 0) {
    trace_.happened(WorkerStarted{attempt, LocalRank(worker), 4711 + worker}, at(time));
  }
  void end(int worker, int time, ProcessEnd how) {
    trace_.happened(WorkerEnded{0, LocalRank(worker), 4711 + worker, how, {}}, at(time));
  }
  void operate(const Operation& operation) { trace_.operated(LocalRank(1), operation); }

  std::string text() const { return trace_.head(at(1)) + written_ + "\n]}\n"; }

  // The events of a kind.
  std::vector<nlohmann::json> events(const std::string& phase) const {
    std::vector<nlohmann::json> found;
    const auto trace = nlohmann::json::parse(text());
    for (const auto& event : trace["traceEvents"]) {
      if (event["ph"] == phase) found.push_back(event);
    }
    return found;
  }

  // "all_reduce 10+5 in row 1"
  std::vector<std::string> bars() const {
    std::vector<std::string> found;
    for (const auto& bar : events("X")) {
      found.push_back(bar["name"].get<std::string>() + " " + bar["ts"].dump() + "+" +
                      bar["dur"].dump() + " in row " + bar["tid"].dump());
    }
    return found;
  }

  const LaunchPlan plan_ = traced_plan();
  std::string written_;
  RunTrace trace_{plan_, "node7", [this](std::string_view events) {
                    written_ += (written_.empty() ? "" : ",\n") + std::string(events);
                  }};
};

TEST_F(RunTraceTest, WritesARunOfOneWorker) {
  trace_.happened(RunStarted{4710, "127.0.0.1:29500"}, at(1000));
  trace_.happened(AttemptStarted{0}, at(2000));
  start(1, 3000);
  operate(all_reduce(1, 4000, 4500));
  trace_.loaded({{.worker = LocalRank(1),
                  .cpu_time = std::chrono::milliseconds(1),
                  .resident_bytes = 3 << 20}},
                at(5000));
  end(1, 6000, ExitedWith{0});
  trace_.happened(RunEnded{{.cause = RunEnd::Cause::kSucceeded}}, at(7000));
  EXPECT_EQ(
      text(),
      R"x({"displayTimeUnit":"ms","otherData":{"run_id":"story","host":"node7","node_rank":0,"nodes":1,"began_us":1,"command":"./worker"},"traceEvents":[
{"ph":"M","pid":2000000,"tid":2000000,"name":"process_name","args":{"name":"distrun on node7"}},
{"ph":"M","pid":2000000,"tid":2000000,"name":"process_sort_index","args":{"sort_index":-1}},
{"ph":"M","pid":2000000,"tid":2000000,"name":"thread_name","args":{"name":"run"}},
{"ph":"M","pid":2000000,"tid":2000000,"name":"thread_sort_index","args":{"sort_index":0}},
{"ph":"i","pid":2000000,"tid":2000000,"name":"run_started","ts":1000.000,"s":"t","args":{"time":"1970-01-01T00:00:00.001Z","event":"run_started","run_id":"story","host":"node7","node_rank":0,"launcher_pid":4710,"store":"127.0.0.1:29500","workers":2}},
{"ph":"B","pid":2000000,"tid":2000000,"name":"attempt 0","ts":2000.000,"args":{}},
{"ph":"M","pid":1000003,"tid":1000003,"name":"process_name","args":{"name":"rank 3"}},
{"ph":"M","pid":1000003,"tid":1000003,"name":"process_sort_index","args":{"sort_index":3}},
{"ph":"M","pid":1000003,"tid":1000003,"name":"thread_name","args":{"name":"worker"}},
{"ph":"M","pid":1000003,"tid":1000003,"name":"thread_sort_index","args":{"sort_index":0}},
{"ph":"B","pid":1000003,"tid":1000003,"name":"attempt 0","ts":3000.000,"args":{"pid":4712,"local_rank":1}},
{"ph":"M","pid":1000003,"tid":1,"name":"thread_name","args":{"name":"group 0"}},
{"ph":"M","pid":1000003,"tid":1,"name":"thread_sort_index","args":{"sort_index":1000}},
{"ph":"X","pid":1000003,"tid":1,"name":"all_reduce","ts":4000.000,"dur":500.000,"args":{"op":"all_reduce","number":1,"group":"0","group_rank":1,"group_size":4,"dtype":"Float","sizes":"[4]","elements":4}},
{"ph":"C","pid":1000003,"tid":1000003,"name":"CPU %","ts":5000.000,"args":{"value":50}},
{"ph":"C","pid":1000003,"tid":1000003,"name":"memory MiB","ts":5000.000,"args":{"value":3}},
{"ph":"E","pid":1000003,"tid":1000003,"ts":6000.000,"args":{"end":"exit code 0"}},
{"ph":"C","pid":1000003,"tid":1000003,"name":"CPU %","ts":6000.000,"args":{"value":0}},
{"ph":"C","pid":1000003,"tid":1000003,"name":"memory MiB","ts":6000.000,"args":{"value":0}},
{"ph":"i","pid":2000000,"tid":2000000,"name":"run_ended","ts":7000.000,"s":"t","args":{"time":"1970-01-01T00:00:00.007Z","event":"run_ended","run_id":"story","host":"node7","node_rank":0,"cause":"succeeded","exit_status":0}},
{"ph":"E","pid":2000000,"tid":2000000,"ts":7000.000,"args":{}}
]}
)x");
}

TEST_F(RunTraceTest, OperationsThatOverlapHaveRowsOfTheirOwn) {
  operate(all_reduce(1, 0));
  operate(all_reduce(2, 10));
  operate(all_reduce(3, 15, 18));
  operate(all_reduce(2, 10, 20));
  operate(all_reduce(1, 0, 30));
  operate(all_reduce(4, 40, 50));
  EXPECT_THAT(bars(), ElementsAre("all_reduce 15.0+3.0 in row 3", "all_reduce 10.0+10.0 in row 2",
                                  "all_reduce 0.0+30.0 in row 1", "all_reduce 40.0+10.0 in row 1"));
  EXPECT_THAT(written_, HasSubstr(R"x({"name":"group 0 (3)"})x"));
}

TEST_F(RunTraceTest, SendsHaveARowAndAPeer) {
  Operation send = all_reduce(1, 0, 10);
  send.op = "send";
  send.sequence = 0;
  send.peer = 2;
  operate(send);
  Operation broadcast = all_reduce(2, 0, 10);
  broadcast.op = "broadcast";
  broadcast.peer = 0;
  operate(broadcast);
  const auto all = events("X");
  ASSERT_EQ(all.size(), 2U);
  EXPECT_NE(all[0]["tid"], all[1]["tid"]);
  EXPECT_EQ(all[0]["args"]["peer"], 2);
  EXPECT_FALSE(all[0]["args"].contains("number"));
  EXPECT_EQ(all[1]["args"]["root"], 0);
  EXPECT_THAT(written_, HasSubstr(R"({"name":"sends and receives"})"));
}

TEST_F(RunTraceTest, OperationsInProgressAreUnfinishedAtTheEndOfTheirWorker) {
  trace_.happened(AttemptStarted{0}, at(0));
  start(1, 0);
  operate(all_reduce(1, 10));
  end(1, 50, KilledBy{SIGKILL});
  EXPECT_THAT(bars(), IsEmpty());
  trace_.happened(AttemptStarted{1}, at(60));
  ASSERT_THAT(bars(), ElementsAre("all_reduce (unfinished) 10.0+40.0 in row 1"));
  EXPECT_EQ(events("X")[0]["args"]["unfinished"], true);
  EXPECT_EQ(events("i")[0]["name"], "signal SIGKILL (9)");
  // The numbers of the next attempt begin again.
  operate(all_reduce(1, 70, 80));
  EXPECT_EQ(bars().back(), "all_reduce 70.0+10.0 in row 1");
  operate(all_reduce(2, 90));
  trace_.happened(RunEnded{{.cause = RunEnd::Cause::kTimedOut}}, at(100));
  EXPECT_EQ(bars().back(), "all_reduce (unfinished) 90.0+10.0 in row 1");
}

TEST_F(RunTraceTest, AnUnknownEndIsAMark) {
  Operation lost = all_reduce(1, 10);
  operate(lost);
  lost.tells_end = false;
  operate(lost);
  trace_.missed(LocalRank(1), 12, at(20));
  const auto marks = events("i");
  ASSERT_EQ(marks.size(), 2U);
  EXPECT_EQ(marks[0]["name"], "all_reduce (end unknown)");
  EXPECT_EQ(marks[1]["name"], "12 operations are missing: too fast for distrun");
  operate(all_reduce(2, 30, 40));
  EXPECT_THAT(bars(), ElementsAre("all_reduce 30.0+10.0 in row 1"));
}

TEST_F(RunTraceTest, GroupsWithoutEndShareARow) {
  for (int i = 0; i < 1000; ++i) {
    Operation operation = all_reduce(static_cast<std::uint64_t>(i) + 1, 10 * i, 10 * i + 5);
    operation.group = std::to_string(i);
    operate(operation);
  }
  EXPECT_EQ(events("X").size(), 1000U);
  EXPECT_EQ(events("M").size(), 2 * (RunTrace::kGroupsMax + 1));
  EXPECT_EQ(events("X").back()["args"]["group"], "999");
}

TEST_F(RunTraceTest, EventsOfTheRunAreMarks) {
  trace_.happened(SignalReceived{SIGUSR2, /*forwarded=*/true}, at(10));
  const auto marks = events("i");
  ASSERT_EQ(marks.size(), 1U);
  EXPECT_EQ(marks[0]["name"], "signal_received");
  EXPECT_EQ(marks[0]["args"]["signal"], "SIGUSR2");
}

}  // namespace
}  // namespace distrun
