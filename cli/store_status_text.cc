#include "cli/store_status_text.h"

#include <algorithm>
#include <set>
#include <vector>

#include <fmt/format.h>

#include "common/text/printable.h"
#include "common/units.h"
#include "store/protocol/store_wait_text.h"

namespace distrun {

namespace {

std::string text_of_bytes(std::uint64_t bytes) {
  const auto size = static_cast<double>(bytes);
  if (bytes < kKiB) return fmt::format("{} bytes", bytes);
  if (bytes < kMiB) return fmt::format("{:.1f} KiB", size / kKiB);
  if (bytes < kGiB) return fmt::format("{:.1f} MiB", size / kMiB);
  return fmt::format("{:.1f} GiB", size / kGiB);
}

std::string counted(std::uint64_t count, std::string_view singular) {
  return fmt::format("{} {}{}", count, singular, count == 1 ? "" : "s");
}

std::string peer_name(const std::string& address, const PeerProcesses& processes) {
  const auto found = processes.find(address);
  if (found == processes.end()) return printable(address, 100);
  const LocalProcess& process = found->second;
  if (process.rank) return fmt::format("rank {} (pid {})", *process.rank, process.pid);
  return fmt::format("pid {}", process.pid);
}

// Empty unless all known processes agree on the world size.
std::vector<int> missing_ranks(const PeerProcesses& processes) {
  std::set<int> present, sizes;
  for (const auto& [address, process] : processes) {
    if (!process.rank || !process.world_size) continue;
    present.insert(*process.rank);
    sizes.insert(*process.world_size);
  }
  std::vector<int> missing;
  if (sizes.size() != 1) return missing;
  constexpr int kWorldMax = 1'000'000;
  for (int rank = 0; rank < std::min(*sizes.begin(), kWorldMax); ++rank) {
    if (!present.contains(rank)) missing.push_back(rank);
  }
  return missing;
}

template <class Items, class Text>
std::string section(std::string_view title, const Items& items, const Text& text) {
  if (items.empty()) return "";
  std::string lines = fmt::format("{}:\n", title);
  for (const auto& item : items) lines += "  " + text(item) + "\n";
  return lines;
}

}  // namespace

std::string text_of(const StoreStatus& status, const PeerProcesses& processes) {
  std::string text =
      fmt::format("store at {}: {}, {}, {}, up {:.1f} s\n", status.address,
                  counted(status.connections, "connection"), counted(status.keys, "key"),
                  text_of_bytes(status.bytes), status.up_s);
  std::vector<StoreStatus::Peer> waiting, others;
  for (const auto& peer : status.peers) (peer.wait ? waiting : others).push_back(peer);
  std::stable_sort(waiting.begin(), waiting.end(),
                   [](const auto& a, const auto& b) { return a.idle_s > b.idle_s; });

  text += section("waiting", waiting, [&](const StoreStatus::Peer& peer) {
    return fmt::format("{:<28} {:>7.1f} s {}", peer_name(peer.address, processes), peer.idle_s,
                       text_of(*peer.wait));
  });
  text += section("connected, not waiting", others, [&](const StoreStatus::Peer& peer) {
    const std::string last = peer.last_request.empty() ? "no request yet" : peer.last_request;
    return fmt::format("{:<28} {:>7.1f} s ago: {}", peer_name(peer.address, processes), peer.idle_s,
                       printable(last, 100));
  });
  if (status.connections > status.peers.size()) {
    text += fmt::format("  and {} more\n", status.connections - status.peers.size());
  }
  if (const auto missing = missing_ranks(processes); !missing.empty()) {
    constexpr std::size_t kRanksShown = 32;
    // A peer of unknown rank may be any rank.
    const bool all_known = status.connections == status.peers.size() &&
                           std::all_of(status.peers.begin(), status.peers.end(), [&](auto& peer) {
                             return processes.contains(peer.address);
                           });
    text += all_known ? "not connected: rank" : "not connected, or not on this machine: rank";
    if (missing.size() > 1) text += "s";
    for (std::size_t i = 0; i < std::min(missing.size(), kRanksShown); ++i) {
      text += fmt::format("{} {}", i == 0 ? "" : ",", missing[i]);
    }
    if (missing.size() > kRanksShown) {
      text += fmt::format(" and {} more", missing.size() - kRanksShown);
    }
    text += '\n';
  }
  text += section("gave up or exited while waiting", status.gave_up,
                  [&](const StoreStatus::GaveUp& event) {
                    return fmt::format("{:<28} {:>7.1f} s ago, after {:.1f} s {}",
                                       peer_name(event.address, processes), event.ago_s,
                                       event.waited_s, text_of(event.wait));
                  });
  text += section(fmt::format("refused ({} in all, latest shown)", status.refused), status.closed,
                  [&](const StoreStatus::Closed& event) {
                    return fmt::format("{:<28} {:>7.1f} s ago: {}", printable(event.address, 100),
                                       event.ago_s, printable(event.reason, 300));
                  });
  return text;
}

}  // namespace distrun
