// What the runner and a test host say to each other: messages, each a packet of JSON with some
// descriptors (packet_socket.h).
//
//     runner                                 host (a program that links distrun::testing)
//        ◀── HostReady [list of its tests] ──
//        ─── ForkRank [in, out, err, result] ▶
//        ◀── RankForked [pidfd] ──                or RankNotForked
//        ◀── RankEnded ──
//
// A rank is known by the key that the runner has given it.  RankForked comes before the host reaps
// the rank, so its pidfd is that of the rank and of nobody else.  The host ends when the socket
// does.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include <sys/types.h>

#include "distrun/process_end.h"
#include "distrun/result.h"

namespace distrun {

// Descriptor 0 of a test host is the socket, where this variable is set.
inline constexpr const char* kTestHostVariable = "DISTRUN_TEST_HOST";

struct ForkRank {
  std::uint64_t key = 0;
  std::string test;  // Its id.
  std::string mark;  // rank_mark(), written over the host's.
  std::map<std::string, std::string> variables;
  std::string folder;              // Becomes the current one.
  bool fresh = false;              // Not a fork: the program executed again.
  std::vector<std::string> under;  // Executed by this command: {"gdb", "--args"}.
  static constexpr std::size_t kDescriptors = 4;
};
using ToHost = ForkRank;

struct HostReady {
  static constexpr std::size_t kDescriptors = 1;
};
struct RankForked {
  std::uint64_t key = 0;
  pid_t pid = -1;
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

// Fail where the packet is none of these messages, or has another number of descriptors.
Result<ToHost> parse_to_host(const std::string& packet, std::size_t descriptors);
Result<FromHost> parse_from_host(const std::string& packet, std::size_t descriptors);

}  // namespace distrun
