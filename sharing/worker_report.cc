#include "sharing/worker_report.h"

namespace distrun::internal {

namespace {

constexpr std::size_t kTypeBytesMax = 1024;
constexpr std::size_t kTextBytesMax = std::size_t{64} * 1024;

}  // namespace

std::string to_packet(const WorkerReport& report) {
  if (std::holds_alternative<WorkerHasBegun>(report)) return "begun";
  if (std::holds_alternative<WorkerHasReturned>(report)) return "returned";
  const auto& raised = std::get<WorkerHasRaised>(report);
  return "raised " + raised.type.substr(0, kTypeBytesMax) + '\0' +
         raised.text.substr(0, kTextBytesMax);
}

std::optional<WorkerReport> parse_worker_report(std::string_view bytes) {
  constexpr std::string_view kRaised = "raised ";
  if (bytes == "begun") return WorkerHasBegun{};
  if (bytes == "returned") return WorkerHasReturned{};
  const std::size_t end_of_type = bytes.find('\0');
  if (!bytes.starts_with(kRaised) || end_of_type == bytes.npos) return std::nullopt;
  return WorkerHasRaised{
      .type = std::string(bytes.substr(kRaised.size(), end_of_type - kRaised.size())),
      .text = std::string(bytes.substr(end_of_type + 1))};
}

}  // namespace distrun::internal
