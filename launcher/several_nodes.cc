#include "launcher/several_nodes.h"

#include <algorithm>

#include <fmt/format.h>

#include "common/parse_number.h"

namespace distrun {

namespace {

Error wrong(std::string message) { return {ErrorKind::kInvalidArgument, std::move(message)}; }

}  // namespace

Result<void> settle_several_nodes(LaunchOptions& options) {
  if (options.node_rank < 0 || options.node_rank >= options.nnodes) {
    return wrong(fmt::format("--node-rank {}: with --nnodes {} these go from 0 to {}",
                             options.node_rank, options.nnodes, options.nnodes - 1));
  }
  if (options.nnodes == 1) return {};
  if (options.store.kind == StoreChoice::Kind::kFile) {
    return wrong("--store: several nodes meet in a TCP store; leave it out");
  }
  if (options.same_user) {
    return wrong("--same-user: it would keep the other nodes out; leave it out");
  }
  if (options.master_port == 0) options.master_port = kDefaultNodesPort;
  if (options.run_id.empty()) options.run_id = "none";
  return {};
}

Result<std::optional<std::chrono::milliseconds>> join_timeout_of(std::string_view rdzv_conf) {
  std::optional<std::chrono::milliseconds> timeout;
  for (std::size_t begin = 0; begin < rdzv_conf.size();) {
    const std::size_t end = std::min(rdzv_conf.find(',', begin), rdzv_conf.size());
    const std::string_view entry = rdzv_conf.substr(begin, end - begin);
    begin = end + 1;
    const std::size_t equals = std::min(entry.find('='), entry.size());
    const std::string_view key = entry.substr(0, equals);
    if (key != "timeout" && key != "join_timeout") continue;
    const auto seconds =
        parse_number<int>(entry.substr(std::min(equals + 1, entry.size())), 1, 1'000'000'000);
    if (!seconds) return seconds.error().with_context(fmt::format("--rdzv-conf {}", key));
    timeout = std::chrono::seconds(*seconds);
  }
  return timeout;
}

}  // namespace distrun
