#include "launcher/plan/several_nodes.h"

#include <fmt/format.h>

#include "common/text/parse_number.h"
#include "launcher/plan/rendezvous.h"

namespace distrun {

namespace {

Error bad_flag(std::string message) { return {ErrorKind::kInvalidArgument, std::move(message)}; }

}  // namespace

Result<void> settle_several_nodes(LaunchOptions& options) {
  if (options.node_rank < 0 || options.node_rank >= options.nnodes) {
    return bad_flag(fmt::format("--node-rank: {} is not between 0 and {} (--nnodes {})",
                                options.node_rank, options.nnodes - 1, options.nnodes));
  }
  if (options.nnodes == 1) return {};
  if (options.store.kind == StoreChoice::Kind::kFile) {
    return bad_flag("--store: several nodes need the TCP store; remove --store");
  }
  if (options.same_user) {
    return bad_flag("--same-user: would refuse the other nodes; remove it");
  }
  if (options.run_id.size() > kNodeNameBytesMax) {
    return bad_flag(
        fmt::format("--rdzv-id: too long; at most {} bytes with several nodes", kNodeNameBytesMax));
  }
  if (options.role.size() > kNodeNameBytesMax) {
    return bad_flag(
        fmt::format("--role: too long; at most {} bytes with several nodes", kNodeNameBytesMax));
  }
  if (options.master_port == 0) options.master_port = kDefaultNodesPort;
  if (options.run_id.empty()) options.run_id = "none";
  return {};
}

Result<std::optional<std::chrono::milliseconds>> join_timeout_of(std::string_view rdzv_conf) {
  std::optional<std::chrono::milliseconds> timeout;
  const auto entries = parse_rdzv_conf(rdzv_conf);
  if (!entries) return entries.error();
  for (const auto& [key, value] : *entries) {
    if (key != "timeout" && key != "join_timeout") continue;
    const auto seconds = parse_number<int>(value, 1, 1'000'000'000);
    if (!seconds) return seconds.error().with_context(fmt::format("--rdzv-conf {}", key));
    timeout = std::chrono::seconds(*seconds);
  }
  return timeout;
}

}  // namespace distrun
