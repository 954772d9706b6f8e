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

void Phases::begin(const CallFacts& facts, Watch& watch) {
  const std::uint32_t next = phase_ + 1;
  // Whoever reads what the cell contains has not published the phase after that yet.
  const std::uint32_t after_cell = next - sizes_.cells + 1;
  if (!has_reached(seen_all_, after_cell)) wait_for_all(next - sizes_.cells / 2, watch);
  phase_ = awaited_ = next;
  cell(rank_, phase_).facts = facts;
}

std::byte* Phases::take_slot(Watch& watch) {
  Slot& slot = slots_[phase_ % 2];
  // By a rank that has not published the last phase yet.
  if (slot.may_be_read) wait_for_all(phase_ - 1, watch);
  slot = {.taken_in = phase_, .may_be_read = true};
  return slot_of(memory(rank_), phase_, sizes_);
}

void Phases::publish(Watch& watch) {
  auto& word = cell(rank_, phase_).word;
  word.store(phase_, std::memory_order_release);
  watch.published();
  // An update waits until the processor has completed the store: after published(), it mostly has.
  auto& sleepers = memory(rank_).sleepers[index_of(phase_)];
  if (sleepers.exchange(0, std::memory_order_release) != 0) wake_sleepers(word);
}

bool Phases::has_published(int rank) const { return has_published(rank, awaited_); }

bool Phases::has_published(int rank, std::uint32_t phase) const {
  return has_reached(cell(rank, phase).word.load(std::memory_order_acquire), phase);
}

void Phases::wait_for(int rank, std::uint32_t phase, Watch& watch) {
  for (Patience patience(policy_); !patience.is_over(); patience.pause()) {
    if (has_published(rank, phase)) return;
    if (patience.yields_next()) watch.waits();
  }
  auto& word = cell(rank, phase).word;
  auto& sleepers = memory(rank).sleepers[index_of(phase)];
  for (;;) {
    // If it finds the phase then, the bit stays for a later one, and costs a call of the kernel.
    sleepers.fetch_or(1, std::memory_order_acquire);
    const std::uint32_t seen = word.load(std::memory_order_acquire);
    if (has_reached(seen, phase)) return;
    watch.check(rank);
    sleep_on(word, seen, kLookAround);
  }
}

void Phases::wait_for_all(std::uint32_t phase, Watch& watch) {
  awaited_ = phase;
  for (int rank = 0; rank < ranks(); ++rank) {
    if (rank != rank_) wait_for(rank, phase, watch);
  }
  awaited_ = phase_;
  seen_all_ = phase;
  for (Slot& slot : slots_) {
    if (has_reached(phase, slot.taken_in + 1)) slot.may_be_read = false;
  }
}

void Phases::wake_everybody() const {
  for (RankMemory* each : memories_) {
    for (std::uint32_t at = 0; at < sizes_.cells; ++at) wake_sleepers(each->cells[at].word);
  }
}

}  // namespace distrun::shm
