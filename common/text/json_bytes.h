// Texts that may not be UTF-8, such as paths and variables, as bytes in JSON. Only CBOR and other
// binary forms can carry them.
//
//     message["folder"] = json_bytes(folder);
//     folder = text_of_bytes(message.at("folder"));
#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace distrun {

inline nlohmann::json json_bytes(const std::string& text) {
  return nlohmann::json::binary_t({text.begin(), text.end()});
}

// Throws nlohmann::json::type_error if it is something else.
inline std::string text_of_bytes(const nlohmann::json& value) {
  const auto& bytes = value.get_binary();
  return {bytes.begin(), bytes.end()};
}

}  // namespace distrun
