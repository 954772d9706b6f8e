// The hosts of a run that distrun starts over ssh, as the user lists them.
//
//     auto hosts = parse_hosts("gpu[1-2]:8,me@login:4");
//     // {"gpu1", "gpu1", "8"} {"gpu2", "gpu2", "8"} {"me@login", "login", "4"}
//
// A host is a name, an IPv4 address, or an IPv6 address in brackets. Names may have brackets with
// numbers, as in Slurm (launcher/engines/host_list.h). The number of workers after the colon can
// be all that --nproc-per-node can be. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "distrun/result.h"

namespace distrun {

struct HostChoice {
  std::string destination;             // As ssh takes it: "me@login".
  std::string address;                 // Without the user, and without brackets.
  std::optional<std::string> workers;  // nullopt: as --nproc-per-node says.
};

// Never empty. Fails with kInvalidArgument.
Result<std::vector<HostChoice>> parse_hosts(std::string_view text);

}  // namespace distrun
