// The phases of a group's collectives: a rank publishes what it wrote, and waits for the others.
//
//     Phases phases(memories, sizes, rank, wait_policy(ranks, cpus));
//     phases.begin(facts, watch);
//     std::memcpy(phases.take_slot(watch), mine, bytes);
//     phases.publish(watch);
//     phases.wait_for_all(watch);
//     … phases.slot(peer) …                                  // Until the next publish().
//
// A wait first watches the flag, then lets other threads run, then sleeps (futex) until the peer
// publishes; ranks beyond the number of CPUs stay fast that way, and waiting ranks burn no CPU.
// While it sleeps, it asks the Watch several times a second whether to go on.
//
// A rank that reads nothing of the others may be ahead of them, by one phase less than it has
// cells.
//
// Memory order: publish() releases what the rank wrote, and a wait acquires it. Whoever goes to
// sleep and whoever publishes both update the sleepers' word: either the publisher finds the
// sleeper, or the sleeper finds the phase. Ranks that lead find each other by a fence (lead()).
// Nothing else orders the ranks. Thread safety: one thread at a time.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "backends/shm/host/patience.h"
#include "backends/shm/host/rank_memory.h"

namespace distrun::shm {

// Decides whether a wait goes on.
class Watch {
 public:
  virtual ~Watch() = default;
  // Called while `rank` has not published `phase`. Throws to end the wait.
  virtual void check(int rank) = 0;
  // Called before a wait that may take more than some microseconds. May be called more than once.
  virtual void waits() {}
  // Called during a wait when the rank has published an earlier phase since the last call of
  // check(): it is not late, but behind.
  virtual void advances() {}
  // Called when this rank has published a phase, before it wakes ranks that sleep until then. What
  // is done here costs little, because the data are on their way; but it must not take long. If it
  // throws, whoever catches it must wake_everybody().
  virtual void published() {}
  // Throws if a call of any rank has failed, or the rank aborted its group during one.
  virtual void check_failed() {}
  // Throws if any rank has failed, left or ended. Costs a system call.
  virtual void check_present() {}
  // Moves the deadline that it was given.
  virtual void prolong(std::chrono::milliseconds /*by*/) {}
};

// Passes every call to another Watch. Derive from it to change some.
class ForwardingWatch : public Watch {
 public:
  explicit ForwardingWatch(Watch& watch) : watch_(watch) {}

  void check(int rank) override { watch_.check(rank); }
  void waits() override { watch_.waits(); }
  void advances() override { watch_.advances(); }
  void published() override { watch_.published(); }
  void check_failed() override { watch_.check_failed(); }
  void check_present() override { watch_.check_present(); }
  void prolong(std::chrono::milliseconds by) override { watch_.prolong(by); }

 private:
  Watch& watch_;
};

class Phases {
 public:
  Phases(std::vector<RankMemory*> memories, const MemorySizes& sizes, int rank, WaitPolicy policy);

  // Begins the next phase. Waits for the others if this rank is as far ahead as it may be.
  void begin(const CallFacts& facts, Watch& watch);
  // Where this rank may write in the phase: kInlineBytes, kSmallBytes, or slot_bytes(), for which
  // it waits until no rank reads what they contained.
  std::byte* inline_bytes() { return cell(rank_, phase_).bytes.data(); }
  std::byte* small_slot() { return small_slot_of(memory(rank_), phase_, sizes_); }
  std::byte* take_slot(Watch& watch);
  // Also calls watch.published().
  void publish(Watch& watch);

  // Waits until the rank has published the phase.
  void wait_for(int rank, Watch& watch) { wait_for(rank, phase_, watch); }
  void wait_for_all(Watch& watch) { wait_for_all(phase_, watch); }
  // Whether the rank has published the phase; while a function of this class waits, the one for
  // which it waits.
  bool has_published(int rank) const;

  // For a root that waits for no other rank, after publish(). Another rank may also be one, by
  // mistake: of two, at least one then finds that the other leads.
  void lead();
  // Whether the rank has published the phase, and led in it or in a later one.
  bool leads(int rank) const;

  // For a rank that has perhaps published the next phase, too: fetches it while this one is used.
  void prefetch_next(int rank) const;

  // Published by the rank. Valid after a wait for it, until this rank's next publish().
  const std::byte* slot(int rank) const { return slot_of(memory(rank), phase_, sizes_); }
  const std::byte* small_slot(int rank) const {
    return small_slot_of(memory(rank), phase_, sizes_);
  }
  const std::byte* inline_bytes(int rank) const { return cell(rank, phase_).bytes.data(); }
  const CallFacts& facts(int rank) const { return cell(rank, phase_).facts; }

  int rank() const { return rank_; }
  int ranks() const { return static_cast<int>(memories_.size()); }
  std::size_t slot_bytes() const { return sizes_.slot_bytes; }

  // Ends the sleep of every thread that waits for any rank, so that it asks its Watch.
  void wake_everybody() const;

 private:
  RankMemory& memory(int rank) const { return *memories_[static_cast<std::size_t>(rank)]; }
  std::size_t index_of(std::uint32_t phase) const { return phase & (sizes_.cells - 1); }
  Cell& cell(int rank, std::uint32_t phase) const { return memory(rank).cells[index_of(phase)]; }
  // Returns false if the rank does not publish the phase before this one should sleep.
  bool comes_soon(int rank, std::uint32_t phase, Watch& watch);
  // Before this rank sleeps until the phase. Returns what the cell's word is until then, or nullopt
  // if the rank has published the phase.
  std::optional<std::uint32_t> announce_sleep(int rank, std::uint32_t phase);
  void wait_for(int rank, std::uint32_t phase, Watch& watch);
  void wait_for_all(std::uint32_t phase, Watch& watch);
  // Waits for a short time, and perhaps sees all ranks in the phase.
  void linger_for_all(std::uint32_t phase, Watch& watch);
  void all_are_seen(std::uint32_t phase);
  bool has_published(int rank, std::uint32_t phase) const;
  // The rank has published `first`. Returns the last phase up to `last` that it has published.
  std::uint32_t last_published(int rank, std::uint32_t first, std::uint32_t last) const;

  const std::vector<RankMemory*> memories_;
  const int rank_;
  const WaitPolicy policy_;
  const MemorySizes sizes_;
  std::uint32_t phase_ = 0;
  std::uint32_t awaited_ = 0;   // By the wait that runs, or else phase_.
  std::uint32_t seen_all_ = 0;  // The last phase in which every rank was seen.
  struct Slot {
    std::uint32_t taken_in = 0;  // The phase.
    bool may_be_read = false;
  };
  std::array<Slot, 2> slots_;  // The large slots of this rank.
};

}  // namespace distrun::shm
