#include "common/text/trace_event.h"

#include <limits>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace distrun {
namespace {

using std::chrono::nanoseconds;

TraceTime at(std::int64_t time) { return TraceTime(nanoseconds(time)); }

constexpr TraceRow kRow{.process = 7, .thread = 2};

TEST(TraceEventTest, ASliceHasItsTimesToTheNanosecond) {
  EXPECT_EQ(trace_slice(kRow, "all_reduce", at(1'772'366'400'250'000'007),
                        at(1'772'366'400'250'012'045), R"({"number":12})"),
            R"({"ph":"X","pid":7,"tid":2,"name":"all_reduce","ts":1772366400250000.007,)"
            R"("dur":12.038,"args":{"number":12}})");
}

TEST(TraceEventTest, ASliceOfAnyTimesIsJson) {
  constexpr auto kMin = std::numeric_limits<std::int64_t>::min(),
                 kMax = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(trace_slice(kRow, "a", at(kMin), at(kMax)),
            R"({"ph":"X","pid":7,"tid":2,"name":"a","ts":-9223372036854775.808,)"
            R"("dur":18446744073709551.615,"args":{}})");
  EXPECT_EQ(trace_slice(kRow, "a", at(-5), at(-10)),
            R"({"ph":"X","pid":7,"tid":2,"name":"a","ts":-0.005,"dur":0.000,"args":{}})");
}

TEST(TraceEventTest, NamesAreQuotedAndUtf8) {
  const auto event = nlohmann::json::parse(trace_instant(kRow, "a\"b\n\xff", at(1000)));
  EXPECT_EQ(event,
            nlohmann::json::parse(
                R"({"ph":"i","pid":7,"tid":2,"name":"a\"b\n\ufffd","ts":1,"s":"t","args":{}})"));
}

TEST(TraceEventTest, OtherEvents) {
  EXPECT_EQ(trace_begin(kRow, "a", at(1500)),
            R"({"ph":"B","pid":7,"tid":2,"name":"a","ts":1.500,"args":{}})");
  EXPECT_EQ(trace_end(kRow, at(2000), R"({"x":1})"),
            R"({"ph":"E","pid":7,"tid":2,"ts":2.000,"args":{"x":1}})");
  EXPECT_EQ(trace_counter(7, "CPU", at(0), 99.5),
            R"({"ph":"C","pid":7,"tid":7,"name":"CPU","ts":0.000,"args":{"value":99.5}})");
  EXPECT_EQ(trace_row_name(kRow, "group 0", 3),
            R"({"ph":"M","pid":7,"tid":2,"name":"thread_name","args":{"name":"group 0"}})"
            ",\n"
            R"({"ph":"M","pid":7,"tid":2,"name":"thread_sort_index","args":{"sort_index":3}})");
  EXPECT_EQ(trace_process_name(7, "rank 3", 4).substr(0, 73),
            R"({"ph":"M","pid":7,"tid":7,"name":"process_name","args":{"name":"rank 3"}})");
}

TEST(TraceLanesTest, BarsThatOverlapGetLanesOfTheirOwn) {
  TraceLanes lanes;
  EXPECT_EQ(lanes.take(at(0)), 0U);
  EXPECT_EQ(lanes.take(at(10)), 1U) << "the first has not ended";
  lanes.end(1, at(20));
  EXPECT_EQ(lanes.take(at(15)), 2U);
  EXPECT_EQ(lanes.take(at(20)), 1U) << "free from its end on";
  lanes.end(0, at(30));
  EXPECT_EQ(lanes.take(at(40)), 0U);
}

}  // namespace
}  // namespace distrun
