#include "common/text/utc_time.h"

#include <fmt/chrono.h>

namespace distrun {

std::string rfc3339(std::chrono::system_clock::time_point time) {
  const auto ms = std::chrono::floor<std::chrono::milliseconds>(time);
  const auto whole = std::chrono::floor<std::chrono::seconds>(ms);
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z",
                     fmt::gmtime(std::chrono::system_clock::to_time_t(whole)),
                     (ms - whole).count());
}

}  // namespace distrun
