// The text of `distrun store status`: waiting clients and their keys, other clients, missing ranks.
//
//     store at 127.0.0.1:29500: 3 connections, 12 keys, 3.1 KiB, up 61.0 s
//     waiting:
//       rank 0 (pid 4711)                31.2 s for ready/3
//       rank 2 (pid 4713)                30.9 s in the barrier epoch/1: 2 of 4 clients arrived
//     connected, not waiting:
//       rank 3 (pid 4714)                32.0 s ago: set
//     not connected: rank 1
//
// A missing rank may be one of the peers shown by address; the text then says so.
//
// Pure.
#pragma once

#include <string>

#include "distrun/store_status.h"
#include "store/network/client_processes.h"

namespace distrun {

std::string text_of(const StoreStatus& status, const PeerProcesses& processes);

}  // namespace distrun
