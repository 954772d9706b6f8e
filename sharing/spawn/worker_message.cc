#include "sharing/spawn/worker_message.h"

#include "common/text/parse_number.h"
#include "common/text/text_cut.h"

namespace distrun::internal {

namespace {

constexpr std::size_t kTypeBytesMax = 1024;
constexpr std::size_t kTextBytesMax = std::size_t{64} * 1024;

}  // namespace

std::string to_packet(const WorkerMessage& report) {
  if (std::holds_alternative<WorkerHasBegun>(report)) return "begun";
  if (std::holds_alternative<WorkerHasReturned>(report)) return "returned";
  const auto& raised = std::get<WorkerHasRaised>(report);
  return "raised " + std::to_string(raised.at) + ' ' + raised.type.substr(0, kTypeBytesMax) + '\0' +
         std::string(cut_to_bytes(raised.text, kTextBytesMax));
}

std::optional<WorkerMessage> parse_worker_message(std::string_view bytes) {
  constexpr std::string_view kRaised = "raised ";
  if (bytes == "begun") return WorkerHasBegun{};
  if (bytes == "returned") return WorkerHasReturned{};
  if (!bytes.starts_with(kRaised)) return std::nullopt;
  bytes.remove_prefix(kRaised.size());
  const std::size_t end_of_time = bytes.find(' '), end_of_type = bytes.find('\0');
  if (end_of_type == bytes.npos || end_of_time > end_of_type) return std::nullopt;
  const auto at = parse_number<std::int64_t>(bytes.substr(0, end_of_time));
  if (!at) return std::nullopt;
  const std::size_t type = end_of_time + 1;
  return WorkerHasRaised{.type = std::string(bytes.substr(type, end_of_type - type)),
                         .text = std::string(bytes.substr(end_of_type + 1)),
                         .at = *at};
}

}  // namespace distrun::internal
