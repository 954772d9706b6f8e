// Runs a command of distrun on hosts, over ssh: the launcher of `--hosts`.
//
//     const auto end = run_on_hosts({.hosts = hosts, .orders = orders, …}, options, environment);
//     if (!end) return end.error();      // "gpu-2: ssh ended with exit code 255 before …"
//     return *end;                       // The exit status.
//
// First every host gets ready; then all start. So if a host cannot be reached, nothing starts.
// The distruns of the hosts are the nodes of an ordinary run, and decide together how it ends. This
// process passes on signals and output, and keeps the connections alive.
//
// If this process is killed, or a connection is lost, the run ends on its hosts (host_agent.h).
#pragma once

#include <string>
#include <vector>

#include "common/os/environment.h"
#include "distrun/result.h"
#include "launcher/hosts/host_choice.h"
#include "launcher/hosts/host_order.h"
#include "launcher/plan/options.h"

namespace distrun {

struct HostsRun {
  std::vector<HostChoice> hosts;
  std::vector<HostOrder> orders;  // One for each host.
  std::vector<std::string> ssh;   // The user's command: {"ssh", "-p", "2222"}.
};

// Prints to stdout and stderr. Of `options`, it uses the signals and the time-out. Returns the exit
// status. Fails with kInvalidArgument if the ssh command does not exist, and kSystem if a host does
// not get ready.
Result<int> run_on_hosts(const HostsRun& run, const LaunchOptions& options,
                         const Environment& environment);

}  // namespace distrun
