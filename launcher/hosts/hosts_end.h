// How a run on hosts ended: the exit status of distrun, from those of the hosts.
//
//     const HostsEnd end = hosts_end({{.host = "a", .status = 7}, {.host = "b", .status = 7}});
//     end.status    // 7
//     end.lost      // Hosts whose connection was lost, for a message.
//
// The nodes of a run agree on its status. ssh exits with 255 if it loses the connection, and
// otherwise with the status of the agent. If a connection is lost, the status is 125. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace distrun {

struct HostEnd {
  std::string host;
  std::optional<int> status;  // Of ssh. nullopt: it was killed, or did not end in time.
};

struct HostsEnd {
  int status = 0;
  std::vector<std::string> lost;
};

// In the order of the nodes; at least one.
HostsEnd hosts_end(const std::vector<HostEnd>& ends);

}  // namespace distrun
