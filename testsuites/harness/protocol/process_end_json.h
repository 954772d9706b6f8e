// A process end as JSON: {"exit_code": 3} or {"signal": 9}.
#pragma once

#include <nlohmann/json.hpp>

#include "common/text/json_number.h"
#include "distrun/process_end.h"

namespace distrun {

inline nlohmann::ordered_json end_json(const ProcessEnd& end) {
  if (const auto* exited = std::get_if<ExitedWith>(&end)) return {{"exit_code", exited->code}};
  return {{"signal", std::get<KilledBy>(end).signal}};
}

// Throws std::exception if `value` is something else.
inline ProcessEnd end_from(const nlohmann::json& value) {
  if (value.contains("signal")) return KilledBy{required_number<int>(value.at("signal"))};
  return ExitedWith{required_number<int>(value.at("exit_code"))};
}

}  // namespace distrun
