#include "testsuites/harness/protocol/rank_frames.h"

#include <cstdint>
#include <cstring>

#include <nlohmann/json.hpp>

#include "common/text/json_number.h"
#include "common/text/text_cut.h"
#include "common/units.h"
#include "testsuites/harness/protocol/facts_json.h"

namespace distrun {

namespace {

constexpr std::uint32_t kMark = 0xD157F4A7;  // Changes with the payloads.
constexpr std::size_t kHeaderBytes = 8;
constexpr std::size_t kPayloadBytesMax = 16 * kMiB;
constexpr std::size_t kTextBytesMax = 1 * kMiB;

std::string cut(const std::string& text) { return shortened(text, kTextBytesMax); }

nlohmann::json to_json(const AssertionFailed& failed) {
  AssertionFailure failure = failed.failure;
  failure.message = cut(failure.message);
  nlohmann::json frame = to_json(failure);
  frame["frame"] = "failure";
  return frame;
}
nlohmann::json to_json(const SkipAsked& skip) {
  return {{"frame", "skip"}, {"reason", cut(skip.reason)}};
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

RankFrame frame_from(const nlohmann::json& payload) {
  const auto kind = payload.at("frame").get<std::string>();
  if (kind == "failure") {
    return AssertionFailed{failure_from(payload)};
  }
  if (kind == "skip") return SkipAsked{payload.at("reason").get<std::string>()};
  if (kind == "place") {
    return PlaceTold{payload.at("text").get<std::string>(),
                     collective_record_from(payload.at("collectives"))};
  }
  if (kind == "collective") return CollectiveTold{payload.at("text").get<std::string>()};
  if (kind == "done") {
    return TestDone{required_number<int>(payload.at("assertions")),
                    collective_record_from(payload.at("collectives"))};
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
