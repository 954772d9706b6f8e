#include "distrun/shard_metadata.h"

#include <optional>

#include <c10/util/Exception.h>

#include "common/text/parse_number.h"

namespace distrun {

namespace {

constexpr std::string_view kRank = "rank:";

std::optional<c10::Device> parse_device(std::string_view text) {
  try {
    return c10::Device(std::string(text));
  } catch (const c10::Error&) {
    return std::nullopt;
  }
}

}  // namespace

Result<ShardPlacement> parse_placement(std::string_view placement) {
  const Error error{
      ErrorKind::kInvalidArgument,
      "'" + std::string(placement) +
          "' is not a placement; expected a rank and a device, as in rank:0/cpu or rank:1/cuda:1"};
  if (!placement.starts_with(kRank)) return error;
  const std::string_view text = placement.substr(kRank.size());
  const auto slash = text.find('/');
  const auto rank = parse_number<int>(text.substr(0, slash), 0);
  const auto device =
      parse_device(slash == std::string_view::npos ? "cpu" : text.substr(slash + 1));
  if (!rank || !device) return error;
  return ShardPlacement{*rank, *device};
}

}  // namespace distrun
