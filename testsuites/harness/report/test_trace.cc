#include "testsuites/harness/report/test_trace.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "common/text/trace_event.h"
#include "common/text/utc_time.h"

namespace distrun {

namespace {

// Different from the ids of rows: a row with the id of its process is its main thread.
constexpr int kFirstProcess = 1'000'000;
// Rows of a rank that are in order.
constexpr int kRowsOfRank = 1000;

std::string arguments_text(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

class TestTrace {
 public:
  explicit TestTrace(const TestsBegun& begun) : begun_(begun) {
    text_ = trace_head(arguments_text({{"host", begun.host},
                                       {"began", rfc3339(begun.at)},
                                       {"seed", begun.seed},
                                       {"jobs", begun.jobs},
                                       {"binaries", begun.binaries}}));
  }

  void add(const TestResult& test, const AttemptResult& attempt) {
    if (attempt.ranks.empty()) return;
    ++process_;
    std::string name = name_of(test.test.id, test.repetition, begun_);
    if (test.attempts.size() > 1) name += fmt::format(", attempt {}", attempt.attempt);
    write(trace_process_name(kFirstProcess + process_, name, process_));
    for (const RankResult& rank : attempt.ranks) add(attempt, rank);
  }

  std::string finish() { return text_ + std::string(kTraceTail); }

 private:
  void write(const std::string& events) {
    if (std::exchange(has_events_, true)) text_ += kTraceSeparator;
    text_ += events;
  }

  TraceRow row_of(int rank, std::size_t lane) const {
    return {kFirstProcess + process_, rank * kRowsOfRank + static_cast<int>(lane) + 1};
  }

  void add(const AttemptResult& attempt, const RankResult& rank) {
    const TraceTime ended = rank.ended.value_or(attempt.began + attempt.time);
    const TraceRow row = row_of(rank.rank, 0);
    write(trace_row_name(row, fmt::format("rank {}", rank.rank), row.thread));
    const bool is_culprit =
        std::count(attempt.culprits.begin(), attempt.culprits.end(), rank.rank) > 0;
    nlohmann::ordered_json arguments = {{"status", text_of(rank.status)},
                                        {"assertions", rank.assertions}};
    if (!rank.end.empty()) arguments["end"] = rank.end;
    if (!rank.skip_reason.empty()) arguments["skip_reason"] = rank.skip_reason;
    if (is_culprit) arguments["to_blame"] = attempt.reason;
    if (rank.times.left_out > 0) arguments["operations_left_out"] = rank.times.left_out;
    write(trace_slice(row, text_of(rank.status), rank.began.value_or(attempt.began), ended,
                      arguments_text(arguments)));
    add_operations(rank, ended);
    add_marks(rank, ended);
  }

  void add_operations(const RankResult& rank, TraceTime ended) {
    TraceLanes lanes;
    std::size_t rows = 1;
    for (const TimedOperation& one : rank.times.operations) {
      const std::size_t lane = lanes.take(one.began);
      const TraceTime end = one.ended            ? TraceTime(*one.ended)
                            : one.end_is_unknown ? TraceTime(one.began)
                                                 : ended;
      lanes.end(lane, end);
      const TraceRow row = row_of(rank.rank, lane);
      if (lane >= rows) {
        rows = lane + 1;
        write(trace_row_name(row, fmt::format("rank {} ({})", rank.rank, rows), row.thread));
      }
      nlohmann::ordered_json arguments = {{"op", one.op}, {"tensors", one.tensors}};
      if (one.end_is_unknown) {
        write(trace_instant(row, one.op + " (end unknown)", one.began, arguments_text(arguments)));
        continue;
      }
      if (!one.ended) arguments["unfinished"] = true;
      write(trace_slice(row, one.ended ? one.op : one.op + " (unfinished)", one.began, end,
                        arguments_text(arguments)));
    }
  }

  void add_marks(const RankResult& rank, TraceTime ended) {
    const TraceRow row = row_of(rank.rank, 0);
    for (const AssertionFailure& failure : rank.failures) {
      const std::string name = failure.file.empty()
                                   ? failure.message.substr(0, failure.message.find('\n'))
                                   : fmt::format("failed: {}:{}", failure.file, failure.line);
      write(trace_instant(row, name, failure.at ? TraceTime(*failure.at) : ended,
                          arguments_text({{"message", failure.message}})));
    }
    if (rank.status == RankStatus::kCrashed || rank.status == RankStatus::kTimedOut ||
        rank.status == RankStatus::kExited) {
      const std::string end = rank.end.empty() ? "" : ": " + rank.end;
      write(trace_instant(row, text_of(rank.status) + end, ended,
                          arguments_text({{"stands_at", rank.stands_at}})));
    }
  }

  const TestsBegun& begun_;
  std::string text_;
  bool has_events_ = false;
  int process_ = -1;
};

}  // namespace

std::string test_trace(const TestsBegun& begun, const TestsEnded& ended) {
  TestTrace trace(begun);
  for (const TestResult& test : ended.results) {
    for (const AttemptResult& attempt : test.attempts) trace.add(test, attempt);
  }
  return trace.finish();
}

}  // namespace distrun
