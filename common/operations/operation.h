// A collective, send or receive of one rank, as it records it while it runs.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace distrun {

// By the clock of a machine, so that the times of its ranks compare.
using OperationTime = std::chrono::sys_time<std::chrono::nanoseconds>;

// Times outside of 0 to this, and larger groups, come from a broken writer. Readers cut them off,
// so that differences and sums of two do not overflow.
inline constexpr OperationTime kOperationTimeMax{
    std::chrono::nanoseconds((std::int64_t{1} << 62) - 1)};
inline constexpr int kGroupSizeMax = 1 << 24;

// Readers also cut longer texts, such as names of groups.
inline constexpr std::size_t kOperationTextBytesMax = 64;

inline constexpr std::size_t kDigestBlocks = 16;
// A checksum of each sixteenth of a tensor's bytes (digest.h).
using BlockDigests = std::array<std::uint32_t, kDigestBlocks>;

struct Operation {
  std::uint64_t number = 0;         // Its place among the operations of its rank, from 1.
  std::string op;                   // "all_reduce"
  std::string dtype;                // "Float"
  std::string sizes;                // "[1024, 2]": those of the first input; cut if it is long.
  std::uint64_t elements = 0;       // Of the output, or of the inputs if there is none.
  std::uint32_t element_bytes = 0;  // 0: there is not exactly one output.
  std::string group;                // Its name, the same on every rank.
  int group_rank = -1;              // -1: unknown.
  int group_size = 0;
  std::uint32_t sequence = 0;  // Its place among the collectives of the group, from 1; 0: no
                               // collective.
  int peer = -1;               // Group rank of the root, sender or receiver; -1: none.
  OperationTime began;
  std::optional<OperationTime> ended;  // nullopt: it is in progress, or its end is unknown.
  bool tells_end = true;               // Whether `ended` is set when it ends.
  int node = 0;                        // Where its rank runs. Node 0 converts the times of other
                                       // nodes to its own clock; they may be wrong by clock_error.
  std::chrono::nanoseconds clock_error{0};
  std::optional<std::uint64_t> input_digest;
  std::optional<BlockDigests> output_digests;  // Set together with `ended`.

  bool is_collective() const { return sequence != 0; }
  bool is_in_progress() const { return tells_end && !ended; }
  friend bool operator==(const Operation&, const Operation&) = default;
};

}  // namespace distrun
