#include "testsuites/harness/protocol/facts_json.h"

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "common/text/json_number.h"

namespace distrun {

nlohmann::json time_json(const std::optional<WallTime>& time) {
  return time ? nlohmann::json(time->time_since_epoch().count()) : nlohmann::json();
}

std::optional<WallTime> time_from(const nlohmann::json& time) {
  if (time.is_null()) return std::nullopt;
  return WallTime(std::chrono::microseconds(required_number<std::int64_t>(time)));
}

nlohmann::json to_json(const AssertionFailure& failure) {
  return {{"file", failure.file},
          {"line", failure.line},
          {"message", failure.message},
          {"at", time_json(failure.at)}};
}

AssertionFailure failure_from(const nlohmann::json& failure) {
  return {.file = failure.at("file").get<std::string>(),
          .line = required_number<int>(failure.at("line")),
          .message = failure.at("message").get<std::string>(),
          .at = time_from(failure.at("at"))};
}

namespace {

nlohmann::json to_json(const Collective& one) {
  return {{"op", one.op}, {"sizes", one.sizes}, {"dtype", one.dtype}, {"count", one.count}};
}
nlohmann::json to_json(const CollectiveStretch& stretch) {
  return {{"group", stretch.group},
          {"description", stretch.description},
          {"collective", to_json(stretch.collective)},
          {"has_ended", stretch.has_ended}};
}
nlohmann::json to_json(const TimedOperation& one) {
  return {one.op, one.tensors, time_json(one.began), time_json(one.ended), one.has_completed()};
}
template <class List>
nlohmann::json list_of(const List& list) {
  nlohmann::json all = nlohmann::json::array();
  for (const auto& one : list) all.push_back(to_json(one));
  return all;
}
std::vector<std::vector<std::int64_t>> sizes_from(const nlohmann::json& lists) {
  std::vector<std::vector<std::int64_t>> sizes;
  for (const nlohmann::json& list : lists) {
    auto& numbers = sizes.emplace_back();
    for (const nlohmann::json& number : list) {
      numbers.push_back(required_number<std::int64_t>(number));
    }
  }
  return sizes;
}

Collective collective_from(const nlohmann::json& one) {
  return {.op = one.at("op").get<std::string>(),
          .sizes = sizes_from(one.at("sizes")),
          .dtype = one.at("dtype").get<std::string>(),
          .count = required_number<int>(one.at("count"))};
}

TimedOperation operation_from(const nlohmann::json& one) {
  const auto ended = time_from(one.at(3));
  return {.op = one.at(0).get<std::string>(),
          .tensors = one.at(1).get<std::string>(),
          .began = time_from(one.at(2)).value(),
          .ended = ended,
          .end_is_unknown = !ended && one.at(4).get<bool>()};
}

}  // namespace

nlohmann::json to_json(const CollectiveRecord& record) {
  return {{"counted", list_of(record.counted)},
          {"stretches", list_of(record.stretches)},
          {"is_whole", record.is_whole},
          {"operations", list_of(record.times.operations)},
          {"operations_left_out", record.times.left_out}};
}
CollectiveRecord collective_record_from(const nlohmann::json& json) {
  CollectiveRecord record{.is_whole = json.at("is_whole").get<bool>()};
  for (const auto& one : json.at("counted")) record.counted.push_back(collective_from(one));
  for (const auto& one : json.at("stretches")) {
    record.stretches.push_back({.group = one.at("group").get<std::string>(),
                                .description = one.at("description").get<std::string>(),
                                .collective = collective_from(one.at("collective")),
                                .has_ended = one.at("has_ended").get<bool>()});
  }
  for (const auto& one : json.at("operations")) {
    record.times.operations.push_back(operation_from(one));
  }
  record.times.left_out = required_number<int>(json.at("operations_left_out"));
  return record;
}

}  // namespace distrun
