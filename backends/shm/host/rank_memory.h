// The memory by which the ranks of one host exchange data: each rank has one file in memory, which
// all of them map. This header says what lies where in it; it depends on nothing but the machine.
//
//     | heading | bell | leading | sleepers | cells | slots 0, 1 | small slots | ring for rank 0, …
//
// A collective consists of phases, which all ranks of the group count alike. In phase k a rank
// writes only its cell, and perhaps a slot, and publishes them by storing k in the cell. If it
// waits for no other rank then, it stores k in `leading`, too.
//
// A rank uses its cells, slots and small slots in turns. Whoever publishes phase k + 1 no longer
// reads what others published in phase k, so a rank may write it again when it has seen every other
// rank in phase k + 1. Because it has many cells and small slots, a rank that only sends a few
// bytes may be many phases ahead of the others (phases.h).
//
// Messages from one rank to another pass through the receiver's ring for the sender (mailbox.h).
//
// test/model/protocols_test.cc runs these protocols in all executions that the memory model allows,
// except for `leading`, which phases_test.cc tries.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace distrun::shm {

inline constexpr std::size_t kLineBytes = 64;
// Two lines, because processors fetch pairs of lines.
inline constexpr std::size_t kApartBytes = 2 * kLineBytes;

// A rank's call. Ranks compare their calls before they read each other's data.
struct CallFacts {
  std::uint64_t bytes = 0;     // Of this rank's tensor, or of each rank's part.
  std::uint32_t number = 0;    // Of the collective in the group.
  std::int32_t root = -1;      // -1 if the collective has none.
  std::uint8_t kind = 0;       // A CallKind.
  std::uint8_t element = 0;    // An Element, or kAnyElement.
  std::uint8_t reduction = 0;  // A Reduction.

  friend bool operator==(const CallFacts&, const CallFacts&) = default;
};

inline constexpr std::size_t kInlineBytes = 24;

// The facts and the first bytes of a phase are in the line that says that they are there: a small
// message costs one line.
struct alignas(kApartBytes) Cell {
  std::atomic<std::uint32_t> word = 0;  // The phase.
  std::uint32_t unused = 0;
  CallFacts facts;
  std::array<std::byte, kInlineBytes> bytes{};
};
static_assert(sizeof(CallFacts) == 24);
static_assert(offsetof(Cell, bytes) + kInlineBytes <= kLineBytes);
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

// The number of cells of a rank, and of small slots.
inline constexpr std::size_t kCells = 256;
static_assert(std::has_single_bit(kCells));
inline constexpr std::size_t kSmallBytes = 4096;  // Of a small slot.

enum class RankState : std::uint32_t {
  kAlive,
  kLeft,     // The group was destroyed on this rank.
  kFailed,   // A collective failed on this rank, so that it can take part in no other.
  kAborted,  // The group was aborted in the middle of a collective.
};

// For 8,192 CPUs, the most that Linux supports.
inline constexpr std::size_t kCpuWords = 128;

struct alignas(kApartBytes) Heading {
  std::uint64_t magic = 0;
  std::uint32_t version = 0;
  std::int32_t rank = 0;
  std::int32_t ranks = 0;
  std::uint32_t cells = 0;
  std::uint64_t slot_bytes = 0;
  std::uint64_t ring_bytes = 0;
  // The CPUs that the rank may use, a bit for each. Written before other ranks map the memory.
  std::array<std::uint64_t, kCpuWords> cpus{};
  std::atomic<RankState> state = RankState::kAlive;
  // Why a collective failed on this rank; written before the state. Ends with a zero.
  std::array<char, 512> reason{};
};

inline constexpr std::uint64_t kRankMemoryMagic = 0x306d68736e757264;  // "drunshm0"
inline constexpr std::uint32_t kRankMemoryVersion = 7;

// Changes whenever a message may go on: one came, or the rings of others have room again.
struct alignas(kApartBytes) Bell {
  // Even numbers count; the lowest bit says that a thread of the rank sleeps until it changes.
  std::atomic<std::uint32_t> word = 0;
};

// It has its own line, which other ranks keep in their caches as long as the rank does not lead.
struct alignas(kApartBytes) Leading {
  // The last phase in which the rank was a root that waits for no other rank.
  std::atomic<std::uint32_t> phase = 0;
};

struct RankMemory {
  Heading heading;
  Bell bell;
  Leading leading;
  // Of each cell; 1: some rank sleeps until the cell's word changes. Cells are in other lines, so
  // these stay with the rank as long as no rank sleeps.
  alignas(kApartBytes) std::array<std::atomic<std::uint32_t>, kCells> sleepers{};
  std::array<Cell, kCells> cells;
};

// Bytes from one rank to another, counted from the first.
struct Ring {
  alignas(kApartBytes) std::atomic<std::uint64_t> written = 0;  // By the sender.
  alignas(kApartBytes) std::atomic<std::uint64_t> read = 0;     // By the receiver.
};

inline constexpr std::size_t kPageBytes = 4096;
inline constexpr std::size_t kFirstBytes = 9 * kPageBytes;
static_assert(sizeof(RankMemory) <= kFirstBytes);

// Which all ranks of a group know.
struct MemorySizes {
  int ranks = 1;
  std::size_t slot_bytes = 0;    // A multiple of a page.
  std::size_t ring_bytes = 0;    // A power of two, and a multiple of a page.
  std::uint32_t cells = kCells;  // At most that, and a power of two.

  std::size_t with_large_slots() const { return kFirstBytes + 2 * slot_bytes; }
  std::size_t with_slots() const { return with_large_slots() + cells * kSmallBytes; }
  std::size_t ring_stride() const { return kPageBytes + ring_bytes; }
  std::size_t all() const { return with_slots() + static_cast<std::size_t>(ranks) * ring_stride(); }
};

inline std::byte* slot_of(RankMemory& memory, std::uint32_t phase, const MemorySizes& sizes) {
  return reinterpret_cast<std::byte*>(&memory) + kFirstBytes + (phase % 2) * sizes.slot_bytes;
}
inline std::byte* small_slot_of(RankMemory& memory, std::uint32_t phase, const MemorySizes& sizes) {
  const std::size_t at = phase & (sizes.cells - 1);
  return reinterpret_cast<std::byte*>(&memory) + sizes.with_large_slots() + at * kSmallBytes;
}

inline std::byte* ring_page(RankMemory& memory, int from, const MemorySizes& sizes) {
  return reinterpret_cast<std::byte*>(&memory) + sizes.with_slots() +
         static_cast<std::size_t>(from) * sizes.ring_stride();
}
// Memory of zeros is an empty ring.
inline Ring& ring_of(RankMemory& memory, int from, const MemorySizes& sizes) {
  return *reinterpret_cast<Ring*>(ring_page(memory, from, sizes));
}
inline std::byte* ring_data(RankMemory& memory, int from, const MemorySizes& sizes) {
  return ring_page(memory, from, sizes) + kPageBytes;
}

}  // namespace distrun::shm
