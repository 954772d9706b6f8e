// number_field reads a number from a message of another process.
//
//     const auto bytes = number_field<std::size_t>(fields.at("bytes"));
//
// Throws c10::ValueError if the field is not a whole number that fits Number.
#pragma once

#include <c10/util/Exception.h>
#include <nlohmann/json.hpp>

#include "common/text/json_number.h"

namespace distrun::internal {

template <std::integral Number>
Number number_field(const nlohmann::json& field) {
  const auto number = whole_number<Number>(field);
  TORCH_CHECK_VALUE(number, "a malformed message: ",
                    field.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace),
                    " is not a whole number within its bounds");
  return *number;
}

}  // namespace distrun::internal
