// The rendezvous of a run: its address, port and id, from torchrun's flags.
//
//     const RunRendezvous place = run_rendezvous({.master_port = 29500});
//     // {"127.0.0.1", 29500, "none"}
//
// torchrun (torch/distributed/run.py) has two ways. *static*: the address and port that were given,
// as --rdzv-endpoint or as --master-addr and --master-port. *c10d*: a free port, whatever the
// endpoint's is, for that is only where nodes find each other; it is what one node without a
// --master-port gets. Here too, with these differences, all on one node:
//
//  - A name becomes 127.0.0.1: no other machine takes part, and no name has to be looked up.
//    torchrun's c10d hands its workers the machine's own name.
//  - An address without a port is kept, and so is an id: torchrun drops both where no port is
//  given.
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
  std::string host;                   // A name, or a numeric address without brackets.
  std::optional<std::uint16_t> port;  // Nothing: none was given.
};

// "HOST[:PORT]"; an IPv6 address with a port is in brackets.  As torch's
// parse_rendezvous_endpoint().
Result<Endpoint> parse_endpoint(std::string_view text);

// "127.0.0.1", "[::1]", "node7": without brackets.
Result<std::string> parse_host(std::string_view text);

// Of --rdzv-conf "KEY=VALUE,…" (or empty), without the spaces around them; the views are into
// `text`.
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
  std::string master_addr;  // Likewise, and by parse_host().
  std::optional<std::uint16_t> master_port;
  std::string local_addr;
};

struct RunRendezvous {
  std::string address;     // Numeric: the store listens there.
  std::uint16_t port = 0;  // 0: a free one.
  std::string run_id;      // Empty: a random one.
};

// Of a run on one node.
RunRendezvous run_rendezvous(const RendezvousFlags& flags);

}  // namespace distrun
