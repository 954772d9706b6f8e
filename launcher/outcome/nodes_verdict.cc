#include "launcher/outcome/nodes_verdict.h"

#include <fmt/format.h>

namespace distrun {

std::string describe(const NodesVerdict& verdict) {
  return fmt::format("node {} ({}): {}", verdict.node, verdict.host, verdict.headline);
}

}  // namespace distrun
