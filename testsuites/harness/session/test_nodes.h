// TestNodes is the place of this distrun among the nodes of a run of tests.
//
//     options.nodes = TestNodes{.nodes = 2, .node = 1, .address = {"gpu-0", 29500}};
//
// Every node of a run has the same values, except `node` and `host`.
#pragma once

#include <chrono>
#include <string>

#include "distrun/store_address.h"

namespace distrun {

struct TestNodes {
  int nodes = 1, node = 0;
  StoreAddress address;                        // Node 0's: --master-addr and --master-port.
  std::string address_flag = "--master-addr";  // What gave the address, for messages.
  std::string run_id = "none";                 // Node 0 refuses nodes with another one.
  std::string host;                            // This node's name in messages.
  std::chrono::milliseconds join_timeout = std::chrono::seconds(900);  // For all nodes to join.
  std::chrono::milliseconds heartbeat = std::chrono::seconds(5);       // Between nodes; 0: none.
};

}  // namespace distrun
