#include "common/text/valid_utf8.h"

#include <nlohmann/json.hpp>

namespace distrun {

std::string valid_utf8(std::string_view text) {
  using nlohmann::json;
  const std::string quoted = json(text).dump(-1, ' ', false, json::error_handler_t::replace);
  return json::parse(quoted).get<std::string>();
}

}  // namespace distrun
