#include "launcher/outcome/nodes_verdict.h"

#include <fmt/format.h>

namespace distrun {

std::string describe(const NodesVerdict& verdict) {
  if (verdict.host.empty()) return verdict.headline;
  return fmt::format("node {} ({}): {}", verdict.node, verdict.host, verdict.headline);
}

}  // namespace distrun
