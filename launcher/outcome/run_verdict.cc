#include "launcher/outcome/run_verdict.h"

#include <fmt/format.h>

namespace distrun {

std::string describe(const RunVerdict& verdict) {
  return fmt::format("node {} ({}): {}", verdict.node, verdict.host, verdict.headline);
}

}  // namespace distrun
