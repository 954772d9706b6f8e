#include "testsuites/harness/nodes/test_orders.h"

#include <csignal>
#include <exception>
#include <stdexcept>
#include <utility>

#include <nlohmann/json.hpp>

#include "common/text/json_number.h"
#include "testsuites/harness/nodes/rank_facts_json.h"
#include "testsuites/harness/protocol/test_list_json.h"

namespace distrun {

namespace {

using nlohmann::json;

template <class Kind>
json number_of(Kind kind) {
  return static_cast<int>(kind);
}

template <class Kind>
Kind kind_from(const json& text, Kind last) {
  const int number = required_number<int>(text.at("kind"));
  if (number < 0 || number > static_cast<int>(last)) throw std::runtime_error("unknown kind");
  return static_cast<Kind>(number);
}

std::uint64_t key_from(const json& text) { return required_number<std::uint64_t>(text.at("key")); }

json json_of(const StartHosts&) { return {{"order", "start"}}; }
json json_of(const HostTask& task) {
  return {{"order", "host"}, {"kind", number_of(task.kind)}, {"program", task.program}};
}
json json_of(const BeginPart& begin) {
  const PartOptions& options = begin.options;
  return {{"order", "begin"},           {"test", test_list_json({options.test})},
          {"program", options.program}, {"first", options.first},
          {"count", options.count},     {"ranks", options.ranks},
          {"node", options.node},       {"nodes", options.nodes},
          {"backend", options.backend}, {"seed", options.seed},
          {"key", options.first_key},   {"store_port", options.store_port},
          {"fresh", options.fresh},     {"is_program", options.is_program},
          {"problem", options.problem}};
}
json json_of(const PartOrder& order) {
  return {{"order", "part"},
          {"kind", number_of(order.kind)},
          {"key", order.key},
          {"ranks", order.ranks}};
}
json json_of(const EndTests&) { return {{"order", "end"}}; }

json json_of(const HostReport& report) {
  return {{"report", "host"},
          {"kind", number_of(report.kind)},
          {"program", report.program},
          {"text", report.text}};
}
json json_of(const RankReport& report) {
  return {{"report", "rank"},
          {"kind", number_of(report.kind)},
          {"key", report.key},
          {"rank", report.rank},
          {"text", report.text}};
}
json json_of(const PartReport& report) {
  return {{"report", "part"},
          {"kind", number_of(report.kind)},
          {"key", report.key},
          {"view", to_json(report.view)}};
}
json json_of(const RankFactsTold& told) {
  return {
      {"report", "facts"}, {"key", told.key}, {"rank", told.rank}, {"facts", to_json(told.facts)}};
}
json json_of(const NodeSignaled& signaled) {
  return {{"report", "signal"}, {"signal", signaled.signal}};
}

PartOptions part_options_from(const json& text) {
  auto tests = parse_test_list(text.at("test").get<std::string>());
  if (!tests || tests->size() != 1) throw std::runtime_error("not a test");
  PartOptions options{.test = std::move(tests->front()),
                      .program = required_number<std::size_t>(text.at("program")),
                      .first = required_number<int>(text.at("first")),
                      .count = required_number<int>(text.at("count")),
                      .ranks = required_number<int>(text.at("ranks")),
                      .node = required_number<int>(text.at("node")),
                      .nodes = required_number<int>(text.at("nodes")),
                      .backend = text.at("backend").get<std::string>(),
                      .seed = required_number<std::uint64_t>(text.at("seed")),
                      .first_key = key_from(text),
                      .store_port = required_number<std::uint16_t>(text.at("store_port")),
                      .fresh = text.at("fresh").get<bool>(),
                      .is_program = text.at("is_program").get<bool>(),
                      .problem = text.at("problem").get<std::string>()};
  const bool fits = options.first >= 0 && options.count >= 1 && options.ranks <= kRanksMax &&
                    options.count <= options.ranks - options.first;
  if (!fits) throw std::runtime_error("impossible ranks");
  return options;
}

TestOrder order_from(const json& text) {
  const auto what = text.at("order").get<std::string>();
  if (what == "start") return StartHosts{};
  if (what == "end") return EndTests{};
  if (what == "begin") return BeginPart{part_options_from(text)};
  if (what == "host") {
    return HostTask{kind_from(text, HostTask::Kind::kPassedATest),
                    required_number<std::size_t>(text.at("program"))};
  }
  if (what == "part") {
    return PartOrder{kind_from(text, PartOrder::Kind::kDrop), key_from(text),
                     text.at("ranks").get<std::vector<int>>()};
  }
  throw std::runtime_error("unknown order");
}

TestReport report_from(const json& text) {
  const auto what = text.at("report").get<std::string>();
  if (what == "host") {
    return HostReport{kind_from(text, HostReport::Kind::kGivenUp),
                      required_number<std::size_t>(text.at("program")),
                      text.at("text").get<std::string>()};
  }
  if (what == "rank") {
    return RankReport{kind_from(text, RankReport::Kind::kCollective), key_from(text),
                      required_number<int>(text.at("rank")), text.at("text").get<std::string>()};
  }
  if (what == "part") {
    return PartReport{kind_from(text, PartReport::Kind::kLooked), key_from(text),
                      part_view_from(text.at("view"))};
  }
  if (what == "facts") {
    return RankFactsTold{key_from(text), required_number<int>(text.at("rank")),
                         rank_facts_from(text.at("facts"))};
  }
  if (what == "signal") {
    const int signal = required_number<int>(text.at("signal"));
    if (signal < 1 || signal >= NSIG) throw std::runtime_error("no signal");
    return NodeSignaled{signal};
  }
  throw std::runtime_error("unknown report");
}

template <class Some>
std::string ascii_of(const Some& some) {
  return std::visit([](const auto& what) { return json_of(what); }, some)
      .dump(-1, ' ', /*ensure_ascii=*/true, json::error_handler_t::replace);
}

Error not_a_text(const std::exception& error) {
  return {ErrorKind::kProtocol,
          std::string("it sends texts that no node of a run of tests sends: ") + error.what()};
}

}  // namespace

std::string to_text(const TestOrder& order) { return ascii_of(order); }
std::string to_text(const TestReport& report) { return ascii_of(report); }

Result<TestOrder> parse_test_order(std::string_view text) {
  try {
    return order_from(json::parse(text));
  } catch (const std::exception& error) {
    return not_a_text(error);
  }
}

Result<TestReport> parse_test_report(std::string_view text) {
  try {
    return report_from(json::parse(text));
  } catch (const std::exception& error) {
    return not_a_text(error);
  }
}

}  // namespace distrun
