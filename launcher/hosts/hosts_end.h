// How a run on hosts ended: the exit status of distrun, from those of the hosts.
//
//     const HostsEnd end = hosts_end({{.host = "b", .status = 7}, {.host = "a", .status = 7}});
//     end.status    // 7
//     end.lost      // Hosts whose connection was lost, for a message.
//
// The nodes of a run agree on its status; a host that cannot start its workers ends first. ssh
// exits with 255 if it loses the connection, and otherwise with the status of the agent. If a
// connection is lost, the status is 125. If ssh exits with 255 for all hosts, so does distrun:
// either the workers did, or all connections are lost, and ssh says so. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace distrun {

// From ssh itself.
inline constexpr int kConnectionLost = 255;

struct HostEnd {
  std::string host;
  std::optional<int> status;  // Of ssh. nullopt: ssh was killed.
};

struct HostsEnd {
  int status = 0;
  std::vector<std::string> lost;
};

// In the order of their ends; at least one. Without those that did not end in time.
HostsEnd hosts_end(const std::vector<HostEnd>& ends);

}  // namespace distrun
