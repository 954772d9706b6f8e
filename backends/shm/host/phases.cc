#include "backends/shm/host/phases.h"

#include <atomic>
#include <chrono>
#include <optional>
#include <utility>

#include "backends/shm/host/full_fence.h"
#include "backends/shm/host/futex.h"
#include "backends/shm/host/prefetch.h"

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
  // A rank that has not published this phase may still read the cell.
  const std::uint32_t after_cell = next - sizes_.cells + 1;
  if (!has_reached(seen_all_, after_cell)) {
    wait_for_all(after_cell, watch);
    // So that this rank need not wait again at once.
    linger_for_all(next - sizes_.cells / 2, watch);
  }
  phase_ = awaited_ = next;
  cell(rank_, phase_).facts = facts;
}

std::byte* Phases::take_slot(Watch& watch) {
  Slot& slot = slots_[phase_ % 2];
  // A rank that has not published the phase after that one may still read the slot.
  if (slot.may_be_read) wait_for_all(slot.taken_in + 1, watch);
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
  // Others have read it, so the first store to it would wait until they drop it.
  prefetch_to_write(&cell(rank_, phase_ + 1));
}

void Phases::lead() {
  memory(rank_).leading.phase.store(phase_, std::memory_order_relaxed);
  // The stores of the phase and of this word come before the fence, and the loads in leads() after
  // it. So of two ranks that lead, the one whose fence is later sees both words of the other.
  full_fence();
}

bool Phases::leads(int rank) const {
  const auto led = memory(rank).leading.phase.load(std::memory_order_relaxed);
  // Phases wrap around, so a rank that led long ago may seem to lead.
  return has_reached(led, phase_) && has_published(rank);
}

void Phases::prefetch_next(int rank) const { prefetch_to_read(&cell(rank, phase_ + 1)); }

bool Phases::has_published(int rank) const { return has_published(rank, awaited_); }

bool Phases::has_published(int rank, std::uint32_t phase) const {
  return has_reached(cell(rank, phase).word.load(std::memory_order_acquire), phase);
}

std::uint32_t Phases::last_published(int rank, std::uint32_t first, std::uint32_t last) const {
  while (!has_reached(first, last) && has_published(rank, first + 1)) ++first;
  return first;
}

bool Phases::comes_soon(int rank, std::uint32_t phase, Watch& watch) {
  for (Patience patience(policy_); !patience.is_over(); patience.pause()) {
    if (has_published(rank, phase)) return true;
    if (patience.yields_next()) watch.waits();
  }
  return false;
}

std::optional<std::uint32_t> Phases::announce_sleep(int rank, std::uint32_t phase) {
  // If it finds the phase then, the bit stays for a later one, and costs a call of the kernel.
  memory(rank).sleepers[index_of(phase)].fetch_or(1, std::memory_order_acquire);
  const std::uint32_t seen = cell(rank, phase).word.load(std::memory_order_acquire);
  if (has_reached(seen, phase)) return std::nullopt;
  return seen;
}

void Phases::wait_for(int rank, std::uint32_t phase, Watch& watch) {
  if (comes_soon(rank, phase, watch)) return;
  std::uint32_t last = last_published(rank, seen_all_, phase - 1);
  while (const auto seen = announce_sleep(rank, phase)) {
    if (const auto now = last_published(rank, last, phase - 1); now != last) {
      last = now;
      watch.advances();
    }
    watch.check(rank);
    sleep_on(cell(rank, phase).word, *seen, kLookAround);
  }
}

void Phases::wait_for_all(std::uint32_t phase, Watch& watch) {
  awaited_ = phase;
  for (int rank = 0; rank < ranks(); ++rank) {
    if (rank != rank_) wait_for(rank, phase, watch);
  }
  awaited_ = phase_;
  all_are_seen(phase);
}

void Phases::linger_for_all(std::uint32_t phase, Watch& watch) {
  // The others have enough to do for longer, and time-outs are longer.
  constexpr std::chrono::milliseconds kNap(2);
  if (has_reached(seen_all_, phase)) return;
  for (int rank = 0; rank < ranks(); ++rank) {
    if (rank == rank_ || comes_soon(rank, phase, watch)) continue;
    if (const auto seen = announce_sleep(rank, phase)) {
      sleep_on(cell(rank, phase).word, *seen, kNap);
      if (!has_published(rank, phase)) return;
    }
  }
  all_are_seen(phase);
}

void Phases::all_are_seen(std::uint32_t phase) {
  seen_all_ = phase;
  for (Slot& slot : slots_) {
    if (has_reached(phase, slot.taken_in + 1)) slot.may_be_read = false;
  }
}

void Phases::wake_everybody() const {
  for (RankMemory* each : memories_) {
    for (std::uint32_t at = 0; at < sizes_.cells; ++at) {
      // An update: a rank that goes to sleep later sees what this one stored before.
      const auto sleepers = each->sleepers[at].fetch_or(0, std::memory_order_release);
      if (sleepers != 0) wake_sleepers(each->cells[at].word);
    }
  }
}

}  // namespace distrun::shm
