#include "testsuites/harness/session/test_nodes.h"

#include "common/os/network_interface.h"

namespace distrun {

std::map<std::string, std::string> interface_variables(const std::string& own_address,
                                                       const Environment& environment) {
  const auto interface = interface_of(own_address);
  std::map<std::string, std::string> variables;
  if (!interface) return variables;
  if (!environment.get("GLOO_SOCKET_IFNAME")) variables["GLOO_SOCKET_IFNAME"] = *interface;
  if (!environment.get("NCCL_SOCKET_IFNAME")) variables["NCCL_SOCKET_IFNAME"] = "=" + *interface;
  return variables;
}

JoinRequest join_request_of(const TestNodes& place) {
  JoinRequest request;
  request.command = place.command;
  request.run_id = place.run_id;
  request.node = place.node;
  request.nodes = place.nodes;
  request.heartbeat_ms = static_cast<int>(place.heartbeat.count());
  request.host = place.host;
  return request;
}

}  // namespace distrun
