// Reads what `distrun check` needs to know of this node's network.
//
//     OwnNameLookUp look_up(host);                 // Goes on in another thread.
//     facts.interfaces = network_interfaces();
//     facts.own_name_look = look_up.result();      // Waits for the rest of kNameLookUpMax.
//     mtu_of("eth0")                               // 1500
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/preflight/node_facts.h"

namespace distrun {

// A program that looks the name up at every start should not notice it.
inline constexpr std::chrono::milliseconds kNameLookUpMax = std::chrono::seconds(1);

// Looks up the name of this machine. The look-up cannot be canceled: its thread may outlive this.
class OwnNameLookUp {
 public:
  explicit OwnNameLookUp(const std::string& name);

  // kSlow after kNameLookUpMax. May be called once.
  NodeFacts::Look result();

 private:
  struct Answer;
  std::shared_ptr<Answer> answer_;
  std::chrono::steady_clock::time_point deadline_;
};

// By name, each once. Empty if the kernel does not say.
std::vector<InterfaceFacts> network_interfaces();

std::optional<int> mtu_of(const std::string& interface);

// An IP address of the interface, IPv4 if it has one.
std::optional<std::string> address_of_interface(const std::string& interface);

}  // namespace distrun
