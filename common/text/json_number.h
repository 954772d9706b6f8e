// whole_number reads a JSON field that must be a whole number.
//
//     const auto port = whole_number<std::uint16_t>(message.at("port"));
//     if (!port) …                        // "29500", 1.5, 1e3, -1, 70000
//
// nlohmann::json's get<int>() converts any number: 1e300 is undefined behaviour, and -1 becomes a
// large std::size_t.
//
// Json is nlohmann::json or nlohmann::ordered_json.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <utility>

#include <nlohmann/json.hpp>

namespace distrun {

// Empty if the field has another type (1.0 and 1e3 are floating-point numbers) or does not fit into
// Number.
template <std::integral Number, class Json>
std::optional<Number> whole_number(const Json& field) {
  if (!field.is_number_integer()) return std::nullopt;
  if (field.is_number_unsigned()) {
    const auto value = field.template get<std::uint64_t>();
    if (!std::in_range<Number>(value)) return std::nullopt;
    return static_cast<Number>(value);
  }
  const auto value = field.template get<std::int64_t>();
  if (!std::in_range<Number>(value)) return std::nullopt;
  return static_cast<Number>(value);
}

// Throws std::out_of_range, which quotes the field, instead of returning nothing.
template <std::integral Number, class Json>
Number required_number(const Json& field) {
  const auto number = whole_number<Number>(field);
  if (number) return *number;
  const auto replace = Json::error_handler_t::replace;
  throw std::out_of_range(field.dump(-1, ' ', false, replace) +
                          " is not a whole number within its bounds");
}

}  // namespace distrun
