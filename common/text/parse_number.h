// parse_number reads a decimal whole number that is the whole text.
//
//     auto port = parse_number<std::uint16_t>("29500");       // 29500
//     auto none = parse_number<int>("4x", 1, 1024);      // error: "'4x' is not a whole number"
//
// Fails with kInvalidArgument if `text` is not a number or outside [min, max]; the message quotes
// the text and the bounds.
#pragma once

#include <charconv>
#include <limits>
#include <string>
#include <string_view>

#include "distrun/result.h"

namespace distrun {

template <class Number>
Result<Number> parse_number(std::string_view text, Number min = std::numeric_limits<Number>::min(),
                            Number max = std::numeric_limits<Number>::max()) {
  Number number{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error == std::errc::invalid_argument || stop != end) {
    return Error{ErrorKind::kInvalidArgument, "'" + std::string(text) + "' is not a whole number"};
  }
  if (error == std::errc::result_out_of_range || number < min || number > max) {
    return Error{ErrorKind::kInvalidArgument, std::string(text) + " is not between " +
                                                  std::to_string(min) + " and " +
                                                  std::to_string(max)};
  }
  return number;
}

}  // namespace distrun
