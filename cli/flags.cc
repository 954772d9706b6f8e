#include "cli/flags.h"

#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include "common/text/parse_number.h"
#include "common/units.h"

namespace distrun {

namespace {

// Nothing where it is no number of seconds from 0 to 1e9.
std::optional<std::chrono::milliseconds> parse_seconds(const std::string& text) {
  constexpr double kSecondsMax = 1e9;
  double seconds = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  // Written so that NaN fails too.
  if (error != std::errc() || stop != text.data() + text.size() ||
      !(seconds >= 0 && seconds <= kSecondsMax)) {
    return std::nullopt;
  }
  return std::chrono::milliseconds(static_cast<std::int64_t>(std::ceil(seconds * 1000)));
}

}  // namespace

std::chrono::milliseconds seconds_from(const std::string& flag, const std::string& text) {
  const auto time = parse_seconds(text);
  if (time) return *time;
  throw CLI::ValidationError(flag, "'" + text + "' is not a number of seconds from 0 to 1e9");
}

std::chrono::milliseconds some_seconds_from(const std::string& flag, const std::string& text) {
  const auto time = parse_seconds(text);
  if (time && time->count() > 0) return *time;
  throw CLI::ValidationError(flag,
                             "'" + text + "' is not a number of seconds above 0 and up to 1e9");
}

CLI::Validator whole_number(int min, int max) {
  const auto check = [min, max](const std::string& text) {
    const auto number = parse_number(text, min, max);
    return number ? "" : number.error().message;
  };
  return {check, ""};
}

CLI::Validator one_of(const std::string& first, const std::string& second) {
  const auto check = [first, second](const std::string& text) {
    const bool known = text == first || text == second;
    return known ? "" : "'" + text + "' is neither " + first + " nor " + second;
  };
  return {check, ""};
}

std::string bytes_text(std::size_t bytes) {
  for (const auto& [unit, letter] : {std::pair(kGiB, "G"), {kMiB, "M"}, {kKiB, "K"}}) {
    if (bytes > 0 && bytes % unit == 0) return std::to_string(bytes / unit) + letter;
  }
  return std::to_string(bytes);
}

std::size_t bytes_from(const std::string& flag, const std::string& text) {
  std::string digits = text;
  std::size_t unit = 1;
  if (!digits.empty()) {
    const auto letter = static_cast<char>(std::toupper(static_cast<unsigned char>(digits.back())));
    unit = letter == 'K' ? kKiB : letter == 'M' ? kMiB : letter == 'G' ? kGiB : 1;
    if (unit > 1) digits.pop_back();
  }
  const auto number =
      parse_number<std::size_t>(digits, 1, std::numeric_limits<std::size_t>::max() / unit);
  if (!number) {
    throw CLI::ValidationError(flag, "'" + text +
                                         "' is not a size: a number of bytes from 1 on, "
                                         "or of K, M or G, as in 64K");
  }
  return *number * unit;
}

}  // namespace distrun
