#include "launcher/report/run_record.h"

#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace distrun {
namespace {

using ::testing::HasSubstr;

const RunRecord::Time kBegin(std::chrono::seconds(1735689600));

LaunchPlan recorded_plan() {
  LaunchPlan plan;
  for (int i = 0; i < 2; ++i) plan.workers.push_back({Rank(2 + i), LocalRank(i), {"./worker"}});
  return plan;
}

class RunRecordTest : public ::testing::Test {
 protected:
  static std::string page_of(const RunRecord& record) { return record.html("the summary\n"); }

  // The data for the page's script.
  static nlohmann::json data_of(const RunRecord& record) {
    const std::string page = page_of(record), start = R"(id="data">)";
    const auto from = page.find(start) + start.size();
    return nlohmann::json::parse(page.substr(from, page.find("</script>", from) - from));
  }

  void load(int second, std::chrono::milliseconds cpu) {
    record_.loaded({{.worker = LocalRank(1), .cpu_time = cpu, .resident_bytes = 4096}},
                   kBegin + std::chrono::seconds(second));
  }

  const LaunchPlan plan_ = recorded_plan();
  RunRecord record_{plan_, "node7"};
};

TEST_F(RunRecordTest, HasEventsLoadAndOutput) {
  record_.happened(AttemptStarted{0}, kBegin);
  load(1, std::chrono::milliseconds(1500));
  record_.wrote({.attempt = 0, .worker = LocalRank(1), .text = "</script>\xFF"});
  record_.happened(RunEnded{{.cause = RunEnd::Cause::kTimedOut}}, kBegin);
  const auto data = data_of(record_);
  EXPECT_EQ(data["events"][0]["event"], "attempt_started");
  EXPECT_EQ(data["samples"],
            nlohmann::json::parse(
                R"([{"time": "2025-01-01T00:00:01.000Z", "workers": [[3, 1.5, 4096]]}])"));
  EXPECT_EQ(data["output"],
            nlohmann::json::parse(R"([{"attempt": 0, "rank": 3, "text": "</script>\ufffd"}])"));
  EXPECT_EQ(data["run"]["succeeded"], false);
  EXPECT_EQ(data["run"]["summary"], "the summary\n");
  EXPECT_EQ(data["run"]["command"], "./worker");
}

TEST_F(RunRecordTest, TitleReportsSuccess) {
  record_.happened(RunEnded{{.cause = RunEnd::Cause::kSucceeded}}, kBegin);
  EXPECT_EQ(data_of(record_)["run"]["succeeded"], true);
  EXPECT_THAT(page_of(record_), HasSubstr("<title>The run succeeded – distrun launch</title>"));
}

TEST_F(RunRecordTest, TitleReportsAFailedStart) {
  EXPECT_THAT(page_of(record_), HasSubstr("<title>The run did not start – distrun launch</title>"));
}

TEST_F(RunRecordTest, DropsWholeAttemptsExceptFirstAndLast) {
  constexpr int kAttempts = static_cast<int>(RunRecord::kEventsMax) / 2;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    record_.happened(AttemptStarted{attempt}, kBegin);
    record_.happened(WorkerStarted{.attempt = attempt, .worker = LocalRank(0)}, kBegin);
    record_.happened(AttemptFailed{.attempt = attempt, .end = {}}, kBegin);
  }
  const auto data = data_of(record_);
  EXPECT_LE(data["events"].size(), RunRecord::kEventsMax);
  EXPECT_GE(data["events"].size(), RunRecord::kEventsMax - 3);
  EXPECT_EQ(data["run"]["restarts"], kAttempts);
  std::map<int, int> events;  // By attempt.
  for (const auto& event : data["events"]) ++events[event["attempt"]];
  for (const auto& [attempt, count] : events) EXPECT_EQ(count, 3) << attempt;
  EXPECT_EQ(events.count(0), 1U);
  EXPECT_EQ(events.count(1), 0U);
  EXPECT_EQ(events.count(kAttempts - 1), 1U);
}

TEST_F(RunRecordTest, DropsEventsOfASingleAttempt) {
  record_.happened(AttemptStarted{0}, kBegin);
  const int all = static_cast<int>(RunRecord::kEventsMax) + 5;
  for (int i = 0; i < all; ++i) record_.happened(SignalReceived{.signal = 10 + i % 2}, kBegin);
  const auto data = data_of(record_);
  EXPECT_EQ(data["events"].size(), RunRecord::kEventsMax);
  EXPECT_EQ(data["events"].front()["event"], "attempt_started");
  EXPECT_EQ(data["run"]["events_left_out"], 6);
}

TEST_F(RunRecordTest, ThinsOutSamplesEvenly) {
  constexpr int kSeconds = 10'000;
  for (int i = 0; i < kSeconds; ++i) load(i, std::chrono::seconds(i));
  const auto samples = data_of(record_)["samples"];
  EXPECT_LT(samples.size(), RunRecord::kSamplesMax);
  EXPECT_GE(samples.size(), RunRecord::kSamplesMax / 2 - 1);
  const auto second = [&](std::size_t i) { return samples[i]["workers"][0][1].get<double>(); };
  const double step = second(1) - second(0);
  for (std::size_t i = 1; i < samples.size(); ++i) EXPECT_EQ(second(i) - second(i - 1), step) << i;
  EXPECT_GE(second(samples.size() - 1), kSeconds - 1 - step);
}

TEST_F(RunRecordTest, KeepsTheOutputOfTheLastAttempts) {
  for (int attempt = 0; attempt < 10; ++attempt) {
    for (int i = 0; i < 2; ++i) {
      record_.wrote({.attempt = attempt, .worker = LocalRank(i), .text = "x"});
    }
  }
  const auto output = data_of(record_)["output"];
  EXPECT_EQ(output.size(), 2U * RunRecord::kAttemptsMax);
  EXPECT_EQ(output.front()["attempt"], 10 - RunRecord::kAttemptsMax);
}

}  // namespace
}  // namespace distrun
