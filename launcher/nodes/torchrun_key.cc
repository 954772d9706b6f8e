#include "launcher/nodes/torchrun_key.h"

namespace distrun {

namespace {

// --rdzv-backend static: a PrefixStore with the name of the run.
constexpr std::string_view kStaticMark = "/torchelastic/";
// --rdzv-backend c10d.
constexpr std::string_view kC10dMark = "torch.rendezvous.";

}  // namespace

std::optional<std::string_view> run_of_torchrun_key(std::string_view key) {
  if (!key.starts_with('/')) return std::nullopt;  // TCPStore adds it.
  key.remove_prefix(1);
  if (key.starts_with(kC10dMark)) return key.substr(kC10dMark.size());
  const std::size_t mark = key.find(kStaticMark);
  if (mark == std::string_view::npos) return std::nullopt;
  return key.substr(0, mark);
}

}  // namespace distrun
