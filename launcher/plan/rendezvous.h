// The address, port and id of a run, from torchrun's flags.
//
//     const RunRendezvous place = run_rendezvous({.master_port = 29500});
//     // {"127.0.0.1", 29500, "none"}
//
// torchrun (torch/distributed/run.py) has two backends. *static* uses the given address and port
// (--rdzv-endpoint, or --master-addr and --master-port). *c10d* uses a free port; its endpoint is
// only where nodes find each other. One node without --master-port uses c10d. On one node, distrun
// differs from torchrun:
//
// - A host name becomes 127.0.0.1, which needs no look-up; torchrun's c10d gives workers the
//    machine's name.
// - distrun keeps an address without a port, and an id; torchrun ignores both if no port is given.
//
// Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "distrun/result.h"

namespace distrun {

struct Endpoint {
  std::string host;                   // A name, or an IP address without brackets.
  std::optional<std::uint16_t> port;  // nullopt: not given.
};

// Parses "HOST[:PORT]"; an IPv6 address with a port is in brackets. Like torch's
// parse_rendezvous_endpoint().
Result<Endpoint> parse_endpoint(std::string_view text);

// Parses "127.0.0.1", "[::1]" or "node7"; the result has no brackets.
Result<std::string> parse_host(std::string_view text);

// Whether a host's name or address may have these characters.
bool is_host(std::string_view text);

// Whether it is an IPv4 or IPv6 address, not a name.
bool is_numeric(const std::string& host);

// Whether other machines cannot reach it: a loopback address, or "localhost".
bool is_loopback(const std::string& host);

// Fails for a link-local address without an interface of this machine, as in fe80::1%eth0: the
// kernel cannot connect to it.
Result<void> check_interface(const std::string& host);

// An entry of --rdzv-conf "KEY=VALUE,…", trimmed; the views point into `text`.
struct RdzvConfEntry {
  std::string_view key, value;
};
Result<std::vector<RdzvConfEntry>> parse_rdzv_conf(std::string_view text);

enum class RdzvBackend { kStatic, kC10d };
Result<RdzvBackend> parse_rdzv_backend(std::string_view text);

struct RendezvousFlags {
  RdzvBackend backend = RdzvBackend::kStatic;
  bool standalone = false;
  std::optional<Endpoint> endpoint;
  std::string run_id;       // Empty: not given.
  std::string master_addr;  // From parse_host(); empty: not given.
  std::optional<std::uint16_t> master_port;
  std::string local_addr;
};

struct RunRendezvous {
  std::string address;                    // The IP address at which the store listens.
  std::uint16_t port = 0;                 // 0: a free port.
  std::string run_id;                     // Empty: a random id.
  std::string_view flag = "master-addr";  // Gave the address.
};

// For a run on one node.
RunRendezvous run_rendezvous(const RendezvousFlags& flags);

}  // namespace distrun
