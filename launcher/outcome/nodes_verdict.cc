#include "launcher/outcome/nodes_verdict.h"

#include <fmt/format.h>

namespace distrun {

std::string describe(const NodesVerdict& verdict, bool are_ranks) {
  if (verdict.host.empty()) return verdict.headline;
  if (are_ranks) {
    const std::string name = verdict.headline.starts_with("rank ")
                                 ? verdict.host
                                 : fmt::format("rank {} ({})", verdict.node, verdict.host);
    return fmt::format("{}: {}", name, verdict.headline);
  }
  return fmt::format("node {} ({}): {}", verdict.node, verdict.host, verdict.headline);
}

}  // namespace distrun
