// TestNodes is the place of this distrun among the nodes of a run of tests.
//
//     options.nodes = TestNodes{.nodes = 2, .node = 1, .address = {"gpu-0", 29500}};
//
// Every node of a run has the same values, except `node` and `host`.
#pragma once

#include <chrono>
#include <map>
#include <string>

#include "common/os/environment.h"
#include "distrun/store_address.h"
#include "launcher/nodes/node_messages.h"

namespace distrun {

struct TestNodes {
  int nodes = 1, node = 0;
  StoreAddress address;                        // Node 0's: --master-addr and --master-port.
  std::string address_flag = "--master-addr";  // What gave the address, for messages.
  std::string run_id = "none";                 // Node 0 refuses nodes with another one.
  std::string host;                            // This node's name in messages.
  // What all nodes run, such as "distrun test with 2 programs".
  std::string command = "distrun test";
  std::chrono::milliseconds join_timeout = std::chrono::seconds(900);  // For all nodes to join.
  std::chrono::milliseconds heartbeat = std::chrono::seconds(5);       // Between nodes; 0: none.
};

// The environment that a rank needs on a node with this address: it names the network interface, so
// that Gloo and NCCL do not publish a loopback address. Empty if the user has named it.
std::map<std::string, std::string> interface_variables(const std::string& own_address,
                                                       const Environment& environment);

// The join request of a node of a run of tests.
JoinRequest join_request_of(const TestNodes& place);

}  // namespace distrun
