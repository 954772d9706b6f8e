// A process end as JSON: {"exit_code": 3} or {"signal": 9}.
#pragma once

#include <nlohmann/json.hpp>

#include "distrun/process_end.h"

namespace distrun {

inline nlohmann::ordered_json end_json(const ProcessEnd& end) {
  if (const auto* exited = std::get_if<ExitedWith>(&end)) return {{"exit_code", exited->code}};
  return {{"signal", std::get<KilledBy>(end).signal}};
}

}  // namespace distrun
