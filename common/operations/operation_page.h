// The memory in which a rank records its operations, and in which distrun reads them: a header,
// then a ring of slots.  docs/operations.md describes it for other writers; the wheel has one in
// Python.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>

#include <fcntl.h>

#include "common/operations/operation.h"

namespace distrun {

inline constexpr std::uint64_t kOperationMagic = 0x3153504F4E555244;  // "DRUNOPS1"
inline constexpr std::uint32_t kOperationSlots = 2048;

// UTF-8, padded with zeros; without one if they are full.
struct OperationTexts {
  std::array<char, 24> op;
  std::array<char, 16> dtype;
  std::array<char, 40> sizes;
  std::array<char, 48> group;
};

struct OperationSlot {
  // Operation::number; 0 while the slot is written.  Written last.
  std::uint64_t number;
  std::int64_t began, ended;  // Nanoseconds since 1970; `ended` 0: not set.
  std::uint64_t elements;
  std::uint64_t input_digest;
  std::uint32_t sequence;
  std::int32_t group_rank, group_size, peer;
  std::uint32_t flags;
  std::uint32_t element_bytes;
  OperationTexts texts;
  BlockDigests output_digests;

  static constexpr std::uint32_t kTellsEnd = 1, kHasInputDigest = 2, kHasOutputDigests = 4;
};
static_assert(sizeof(OperationSlot) == 256);

struct OperationPage {
  std::uint64_t magic;       // Set by distrun.
  std::uint32_t slots;       // Likewise.
  std::uint32_t slot_bytes;  // Likewise.
  std::uint64_t begun;       // The operations that the rank has started.
  std::array<std::uint8_t, 4096 - 24> unused;
  std::array<OperationSlot, kOperationSlots> ring;  // Operation n is in ring[(n - 1) % slots].
};
static_assert(offsetof(OperationPage, ring) == 4096);

// The lock that a writer of the page at `offset` holds; the kernel drops it when the process ends.
inline struct flock page_lock(off_t offset) {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = offset;
  lock.l_len = 1;
  return lock;
}

}  // namespace distrun
