// Reads what `distrun check` needs to know of this node's network.
//
//     OwnNameLookUp look_up(host);                 // Goes on meanwhile.
//     facts.interfaces = network_interfaces();
//     facts.own_name_look = look_up.result();      // Waits for the rest of kNameLookUpMax.
//     mtu_of("eth0")                               // 1500
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "launcher/nodes/name_look_up.h"
#include "launcher/preflight/node_facts.h"

namespace distrun {

// A program that looks the name up at every start should not notice it.
inline constexpr std::chrono::milliseconds kNameLookUpMax = std::chrono::seconds(1);

// Looks up the name of this machine.
class OwnNameLookUp {
 public:
  explicit OwnNameLookUp(const std::string& name);
  OwnNameLookUp(const OwnNameLookUp&) = delete;
  OwnNameLookUp& operator=(const OwnNameLookUp&) = delete;

  // kSlow after kNameLookUpMax.
  NodeFacts::Look result();

 private:
  boost::asio::io_context io_{1};
  std::chrono::steady_clock::time_point deadline_;
  NodeFacts::Look look_ = NodeFacts::Look::kSlow;
  NameLookUp look_up_;
};

// By name, each once. Empty if the kernel does not say.
std::vector<InterfaceFacts> network_interfaces();

std::optional<int> mtu_of(const std::string& interface);

}  // namespace distrun
