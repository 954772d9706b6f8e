// Messages between the runner and a test host.  Each is a packet of CBOR with descriptors
// (packet_socket.h).
//
//     runner                                 host (a program that links distrun::testing)
//        ◀── HostReady [list of its tests] ──
//        ─── ForkRank [in, out, err, result] ▶
//        ◀── RankForked [pidfd] ──                or RankNotForked
//        ◀── RankEnded ──
//
// The runner gives each rank a key. The host sends RankForked before it reaps the rank, so the
// pidfd is that rank's. The host exits when the socket closes.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include <sys/types.h>

#include "common/wall_time.h"
#include "distrun/process_end.h"
#include "distrun/result.h"

namespace distrun {

// Set if descriptor 0 of a test host is the socket.
inline constexpr const char* kTestHostVariable = "DISTRUN_TEST_HOST";

struct ForkRank {
  std::uint64_t key = 0;
  std::string test;  // Its id.
  std::string mark;  // rank_mark(), which replaces the host's.
  std::map<std::string, std::string> variables;
  std::string folder;              // The rank's current folder.
  bool fresh = false;              // Execute the program again instead of forking.
  std::vector<std::string> under;  // Run it under this command: {"gdb", "--args"}.
  static constexpr std::size_t kDescriptors = 4;
};
using ToHost = ForkRank;

struct HostReady {
  static constexpr std::size_t kDescriptors = 1;
};
struct RankForked {
  std::uint64_t key = 0;
  pid_t pid = -1;
  WallTime at = {};
  static constexpr std::size_t kDescriptors = 1;
};
struct RankNotForked {
  std::uint64_t key = 0;
  std::string problem;
  static constexpr std::size_t kDescriptors = 0;
};
struct RankEnded {
  std::uint64_t key = 0;
  ProcessEnd end = ExitedWith{0};
  static constexpr std::size_t kDescriptors = 0;
};
using FromHost = std::variant<HostReady, RankForked, RankNotForked, RankEnded>;

std::string to_packet(const ToHost& message);
std::string to_packet(const FromHost& message);

// Fail if the packet is not such a message, or has the wrong number of descriptors.
Result<ToHost> parse_to_host(const std::string& packet, std::size_t descriptors);
Result<FromHost> parse_from_host(const std::string& packet, std::size_t descriptors);

}  // namespace distrun
