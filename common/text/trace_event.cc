#include "common/text/trace_event.h"

#include <cstdint>
#include <cstdlib>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace distrun {

namespace {

// Nanoseconds as microseconds.  A double has not enough digits for times since 1970.
std::string microseconds(std::int64_t nanoseconds) {
  const auto whole = nanoseconds / 1000, rest = nanoseconds % 1000;
  return fmt::format("{}{}.{:03}", nanoseconds < 0 ? "-" : "", std::abs(whole), std::abs(rest));
}

std::string text_of(TraceTime time) { return microseconds(time.time_since_epoch().count()); }

std::string event(std::string_view phase, TraceRow row, std::string_view name,
                  const std::string& fields, std::string_view arguments) {
  return fmt::format(R"({{"ph":"{}","pid":{},"tid":{},"name":{}{},"args":{}}})", phase, row.process,
                     row.thread, json_text(name), fields, arguments);
}

std::string named(TraceRow row, const char* what, std::string_view name, int place) {
  return event("M", row, fmt::format("{}_name", what), "",
               fmt::format(R"({{"name":{}}})", json_text(name))) +
         std::string(kTraceSeparator) +
         event("M", row, fmt::format("{}_sort_index", what), "",
               fmt::format(R"({{"sort_index":{}}})", place));
}

std::string at(TraceTime time) { return R"(,"ts":)" + text_of(time); }

}  // namespace

std::string json_text(std::string_view text) {
  using Json = nlohmann::json;
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string trace_process_name(int process, std::string_view name, int place) {
  return named({process, process}, "process", name, place);
}

std::string trace_row_name(TraceRow row, std::string_view name, int place) {
  return named(row, "thread", name, place);
}

std::string trace_slice(TraceRow row, std::string_view name, TraceTime began, TraceTime ended,
                        std::string_view arguments) {
  // A worker can write any times: their difference may not fit into a number with sign.
  const auto from = began.time_since_epoch().count(), to = ended.time_since_epoch().count();
  const std::uint64_t length =
      to > from ? static_cast<std::uint64_t>(to) - static_cast<std::uint64_t>(from) : 0;
  return event("X", row, name,
               fmt::format(R"({},"dur":{}.{:03})", at(began), length / 1000, length % 1000),
               arguments);
}

std::string trace_begin(TraceRow row, std::string_view name, TraceTime time,
                        std::string_view arguments) {
  return event("B", row, name, at(time), arguments);
}

std::string trace_end(TraceRow row, TraceTime time, std::string_view arguments) {
  return fmt::format(R"({{"ph":"E","pid":{},"tid":{}{},"args":{}}})", row.process, row.thread,
                     at(time), arguments);
}

std::string trace_instant(TraceRow row, std::string_view name, TraceTime time,
                          std::string_view arguments) {
  return event("i", row, name, at(time) + R"(,"s":"t")", arguments);
}

std::string trace_counter(int process, std::string_view name, TraceTime time, double value) {
  return event("C", {process, process}, name, at(time), fmt::format(R"({{"value":{}}})", value));
}

std::string trace_head(std::string_view other) {
  return fmt::format("{{\"displayTimeUnit\":\"ms\",\"otherData\":{},\"traceEvents\":[\n", other);
}

std::size_t TraceLanes::take(TraceTime began) {
  for (std::size_t lane = 0; lane < until_.size(); ++lane) {
    if (!until_[lane] || *until_[lane] > began) continue;
    until_[lane].reset();
    return lane;
  }
  until_.emplace_back();
  return until_.size() - 1;
}

}  // namespace distrun
