// Describes the calls of ranks, and compares them. CallFacts itself lies in the ranks' memory
// (rank_memory.h).
//
//     if (!is_same_call(mine, theirs)) error(described(mine) + "; " + described(theirs));
//
// Pure.
#pragma once

#include <cstdint>
#include <string>

#include "backends/shm/host/rank_memory.h"

namespace distrun::shm {

enum class CallKind : std::uint8_t {
  kNone,
  kBarrier,
  kBroadcast,
  kAllReduce,
  kReduce,
  kAllGather,
  kGather,
  kScatter,
  kReduceScatter,
  kAllToAll,
};

// "all_reduce of 1024 bytes with SUM"
std::string described(const CallFacts& facts);

inline constexpr std::uint8_t kAnyElement = 255;

// Ranks of an all_to_all may have parts of different sizes.
bool is_same_call(CallFacts mine, const CallFacts& theirs);

}  // namespace distrun::shm
