// The processes of this machine that are clients of a store.
//
//     for (const auto& [address, process] : processes_of(status)) … process.pid …
//     waits_of(status)[pid];  // "for ready/3"
#pragma once

#include <string>
#include <unordered_map>

#include <sys/types.h>

#include "distrun/store_status.h"
#include "store/network/local_process.h"

namespace distrun {

// By the address of a peer in the store's status, if its process is known.
using PeerProcesses = std::unordered_map<std::string, LocalProcess>;

// Omits clients on other machines and of other users.
PeerProcesses processes_of(const StoreStatus& status);

// What each process waits for.
using WaitsOfProcesses = std::unordered_map<pid_t, std::string>;
WaitsOfProcesses waits_of(StoreStatus status);

}  // namespace distrun
