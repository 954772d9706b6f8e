#include "backends/shm/host/phases.h"

#include <atomic>
#include <utility>

#include "backends/shm/host/futex.h"

namespace distrun::shm {

namespace {

// Phases wrap around.
bool has_reached(std::uint32_t word, std::uint32_t phase) {
  return static_cast<std::int32_t>(word - phase) >= 0;
}

}  // namespace

Phases::Phases(std::vector<RankMemory*> memories, const MemorySizes& sizes, int rank,
               WaitPolicy policy)
    : memories_(std::move(memories)), rank_(rank), policy_(policy), sizes_(sizes) {}

std::byte* Phases::begin(const CallFacts& facts, Watch& watch) {
  // Whoever reads what this phase overwrites has not published the last phase yet.
  if (!has_seen_all_) wait_for_all(watch);
  ++phase_;
  has_seen_all_ = false;
  cell(rank_).facts = facts;
  return slot_of(memory(rank_), phase_, sizes_);
}

void Phases::publish(Watch& watch) {
  auto& word = cell(rank_).word;
  word.store(phase_, std::memory_order_release);
  watch.published();
  // An update waits until the processor has completed the store: after published(), it mostly has.
  if (sleepers(rank_).exchange(0, std::memory_order_release) != 0) wake_sleepers(word);
}

bool Phases::has_published(int rank) const {
  return has_reached(cell(rank).word.load(std::memory_order_acquire), phase_);
}

void Phases::wait_for(int rank, Watch& watch) {
  for (Patience patience(policy_); !patience.is_over(); patience.pause()) {
    if (has_published(rank)) return;
    if (patience.yields_next()) watch.waits();
  }
  auto& word = cell(rank).word;
  for (;;) {
    // If it finds the phase then, the bit stays for a later one, and costs a call of the kernel.
    sleepers(rank).fetch_or(1, std::memory_order_acquire);
    const std::uint32_t seen = word.load(std::memory_order_acquire);
    if (has_reached(seen, phase_)) return;
    watch.check(rank);
    sleep_on(word, seen, kLookAround);
  }
}

void Phases::wait_for_all(Watch& watch) {
  for (int rank = 0; rank < ranks(); ++rank) {
    if (rank != rank_) wait_for(rank, watch);
  }
  has_seen_all_ = true;
}

void Phases::wake_everybody() const {
  for (RankMemory* each : memories_) {
    for (Cell& cell : each->cells) wake_sleepers(cell.word);
  }
}

}  // namespace distrun::shm
