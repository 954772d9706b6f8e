#include "testsuites/harness/protocol/rank_frames.h"

#include <cstdint>
#include <cstring>

#include <nlohmann/json.hpp>

#include "common/text/json_number.h"
#include "common/text/text_cut.h"
#include "common/units.h"

namespace distrun {

namespace {

constexpr std::uint32_t kMark = 0xD157F4A7;  // Changes with the payloads.
constexpr std::size_t kHeaderBytes = 8;
constexpr std::size_t kPayloadBytesMax = 16 * kMiB;
constexpr std::size_t kTextBytesMax = 1 * kMiB;

std::string cut(const std::string& text) { return shortened(text, kTextBytesMax); }

// Microseconds since 1970, or null.
nlohmann::json to_json(const std::optional<WallTime>& time) {
  return time ? nlohmann::json(time->time_since_epoch().count()) : nlohmann::json();
}

nlohmann::json to_json(const AssertionFailed& failed) {
  return {{"frame", "failure"},
          {"file", failed.failure.file},
          {"line", failed.failure.line},
          {"message", cut(failed.failure.message)},
          {"at", to_json(failed.failure.at)}};
}
nlohmann::json to_json(const SkipAsked& skip) {
  return {{"frame", "skip"}, {"reason", cut(skip.reason)}};
}
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
  return {one.op, one.tensors, to_json(std::optional(one.began)), to_json(one.ended),
          one.has_completed()};
}
template <class List>
nlohmann::json list_of(const List& list) {
  nlohmann::json all = nlohmann::json::array();
  for (const auto& one : list) all.push_back(to_json(one));
  return all;
}
nlohmann::json to_json(const CollectiveRecord& record) {
  return {{"counted", list_of(record.counted)},
          {"stretches", list_of(record.stretches)},
          {"is_whole", record.is_whole},
          {"operations", list_of(record.times.operations)},
          {"operations_left_out", record.times.left_out}};
}
nlohmann::json to_json(const PlaceTold& place) {
  return {
      {"frame", "place"}, {"text", cut(place.text)}, {"collectives", to_json(place.collectives)}};
}
nlohmann::json to_json(const CollectiveTold& told) {
  return {{"frame", "collective"}, {"text", cut(told.text)}};
}
nlohmann::json to_json(const TestDone& done) {
  return {{"frame", "done"},
          {"assertions", done.assertions},
          {"collectives", to_json(done.collectives)}};
}

std::optional<WallTime> time_from(const nlohmann::json& time) {
  if (time.is_null()) return std::nullopt;
  return WallTime(std::chrono::microseconds(required_number<std::int64_t>(time)));
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

CollectiveRecord record_from(const nlohmann::json& json) {
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

RankFrame frame_from(const nlohmann::json& payload) {
  const auto kind = payload.at("frame").get<std::string>();
  if (kind == "failure") {
    return AssertionFailed{{.file = payload.at("file").get<std::string>(),
                            .line = required_number<int>(payload.at("line")),
                            .message = payload.at("message").get<std::string>(),
                            .at = time_from(payload.at("at"))}};
  }
  if (kind == "skip") return SkipAsked{payload.at("reason").get<std::string>()};
  if (kind == "place") {
    return PlaceTold{payload.at("text").get<std::string>(), record_from(payload.at("collectives"))};
  }
  if (kind == "collective") return CollectiveTold{payload.at("text").get<std::string>()};
  if (kind == "done") {
    return TestDone{required_number<int>(payload.at("assertions")),
                    record_from(payload.at("collectives"))};
  }
  throw std::runtime_error("unknown frame " + kind);
}

}  // namespace

std::string to_frame(const RankFrame& frame) {
  // Messages may hold any bytes; invalid UTF-8 is replaced.
  const std::string payload = std::visit([](const auto& some) { return to_json(some); }, frame)
                                  .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  const auto size = static_cast<std::uint32_t>(payload.size());
  std::string bytes(kHeaderBytes, '\0');
  std::memcpy(bytes.data(), &kMark, sizeof(kMark));
  std::memcpy(bytes.data() + sizeof(kMark), &size, sizeof(size));
  return bytes + payload;
}

void RankFrames::add(std::string_view bytes) {
  if (!garbage_) bytes_ += bytes;
}

std::optional<RankFrame> RankFrames::next() {
  if (bytes_.size() < kHeaderBytes) return std::nullopt;
  std::uint32_t mark = 0, size = 0;
  std::memcpy(&mark, bytes_.data(), sizeof(mark));
  std::memcpy(&size, bytes_.data() + sizeof(mark), sizeof(size));
  if (mark != kMark || size > kPayloadBytesMax) return refuse();
  if (bytes_.size() < kHeaderBytes + size) return std::nullopt;
  try {
    auto frame = frame_from(nlohmann::json::parse(bytes_.substr(kHeaderBytes, size)));
    bytes_.erase(0, kHeaderBytes + size);
    return frame;
  } catch (const std::exception&) {
    return refuse();
  }
}

std::nullopt_t RankFrames::refuse() {
  garbage_ = true;
  bytes_.clear();
  return std::nullopt;
}

}  // namespace distrun
