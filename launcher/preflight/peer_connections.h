// Tries whether this node can connect to other nodes, as the workers of Gloo and NCCL do.
//
//     auto listener = PeerListener::listen("10.0.0.3");     // Tell the others listener->port().
//     for (const Unreachable& node : listener->connect_to(peers)) …
//
// Other nodes can connect as long as the listener exists.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "distrun/result.h"
#include "launcher/preflight/node_check.h"

namespace distrun {

inline constexpr std::chrono::milliseconds kConnectMax = std::chrono::seconds(2);

class PeerListener {
 public:
  // Listens at a free port of `address`, which is an IP address of this node. Fails with kSystem.
  static Result<PeerListener> listen(const std::string& address);

  PeerListener(PeerListener&&) noexcept;
  ~PeerListener();

  std::uint16_t port() const;

  // Connects to all peers at the same time. Call it once. Blocks: at most kConnectMax.
  std::vector<Unreachable> connect_to(const std::vector<Peer>& peers);

 private:
  struct Impl;
  explicit PeerListener(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// The address of a peer, from an address of this node: a link-local address needs the interface
// of this node, "fe80::2%eth0". Pure.
std::string address_from_here(const std::string& peer, const std::string& own);

}  // namespace distrun
