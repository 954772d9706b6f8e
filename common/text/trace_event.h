// Events of a trace in Chrome's format, which Perfetto and chrome://tracing show.
//
//     const TraceRow row{.process = 1, .thread = 2};
//     events = {trace_process_name(1, "rank 3"), trace_row_name(row, "group 0", /*place=*/2),
//               trace_slice(row, "all_reduce", began, ended, R"({"number":12})")};
//
// Each function returns JSON objects, separated by ",\n".  `arguments` is a JSON object.  Times are
// microseconds since 1970, with three decimals, so that traces of several nodes can be joined.
//
// Format: "Trace Event Format",
// docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
//
// Pure.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace distrun {

using TraceTime = std::chrono::sys_time<std::chrono::nanoseconds>;

// A row is a thread of a process to the viewers.
struct TraceRow {
  int process = 0, thread = 0;
};

// With quotes.  Invalid UTF-8 becomes U+FFFD.
std::string json_text(std::string_view text);

// The names and places of a process and a row; the lowest place is at the top.
std::string trace_process_name(int process, std::string_view name, int place);
std::string trace_row_name(TraceRow row, std::string_view name, int place);

// A bar.  It has no length if it ends before it begins.  Bars of a row must not overlap, except
// that one can contain others.
std::string trace_slice(TraceRow row, std::string_view name, TraceTime began, TraceTime ended,
                        std::string_view arguments = "{}");

// A bar whose end is not known yet; viewers show it as unfinished until trace_end().
std::string trace_begin(TraceRow row, std::string_view name, TraceTime time,
                        std::string_view arguments = "{}");
std::string trace_end(TraceRow row, TraceTime time, std::string_view arguments = "{}");

// A mark.
std::string trace_instant(TraceRow row, std::string_view name, TraceTime time,
                          std::string_view arguments = "{}");

// A value of a curve of the process.
std::string trace_counter(int process, std::string_view name, TraceTime time, double value);

// What is before the events of a file, and after them.  `other` is a JSON object about the whole.
std::string trace_head(std::string_view other);
inline constexpr std::string_view kTraceSeparator = ",\n", kTraceTail = "\n]}\n";

// TraceLanes spreads bars that overlap over as many lanes as needed.  Bars must come in the order
// in which they begin.
class TraceLanes {
 public:
  // A lane that is free from `began` on; it is taken until end() is called.
  std::size_t take(TraceTime began);
  void end(std::size_t lane, TraceTime ended) { until_[lane] = ended; }

 private:
  std::vector<std::optional<TraceTime>> until_;  // nullopt: taken.
};

}  // namespace distrun
