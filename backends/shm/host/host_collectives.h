// The collectives of the ranks of one host, on bytes.
//
//     HostCollectives collectives(phases, names, blocks, peers, /*have_cpus=*/true);
//     collectives.meet(watch);
//     collectives.all_reduce(data, count, {Element::kFloat32, Reduction::kSum}, watch);
//
// The first phase of a call compares what the ranks call, so that a call which differs is a
// HostError on all of them. Data passes through the slots, in chunks of their size. An all_reduce
// whose data are in a block on every rank (shared_blocks.h) works in place.
//
// Errors: HostError, and what the Watch throws. After an error, no other call may follow. Thread
// safety: one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "backends/shm/host/call_facts.h"
#include "backends/shm/host/collectives.h"
#include "backends/shm/host/peer_memory.h"
#include "backends/shm/host/phases.h"
#include "backends/shm/host/rank_memory.h"
#include "backends/shm/host/reduction.h"
#include "backends/shm/host/shared_blocks.h"

namespace distrun::shm {

// Smaller data are not reduced in place: a phase to find the data costs too much.
inline constexpr std::size_t kInPlaceBytes = std::size_t{1} << 20;

// Larger parts of all_gather and all_to_all are read from the peer's memory, if all ranks can do
// so and it is faster than the copies that it saves. In collectives with a root, it is faster to
// pass data in chunks, on which both ranks work. The same holds for an all_gather of more ranks
// than CPUs: a read saves only one of many copies. An all_reduce would read twice.
inline constexpr std::size_t kReadBytes = std::size_t{16} * 1024;

class HostCollectives : public Collectives {
 public:
  // `names` are the ranks' numbers in messages. `have_cpus`: whether the ranks may use at least as
  // many CPUs as there are ranks; the same on all of them.
  HostCollectives(Phases& phases, const std::vector<int>& names, SharedBlocks& blocks,
                  const PeerMemory& peers, bool have_cpus)
      : phases_(phases),
        names_(names),
        blocks_(blocks),
        peers_(peers),
        have_cpus_(have_cpus),
        sources_(names.size()),
        in_place_(names.size()) {}

  int rank() const override { return phases_.rank(); }
  int ranks() const override { return phases_.ranks(); }

  // The first call of each rank, to find out whether all can read their peers' memory. Without it,
  // data pass through the slots.
  void meet(Watch& watch);
  bool reads_peers() const { return can_read_; }

  // Compares what the ranks call, in a phase that does nothing else: for a call that consists of
  // several of these collectives. Throws HostError if the ranks differ.
  void compare(CallKind kind, Watch& watch) { compare(facts_of(kind), watch); }
  void compare(CallKind kind, std::size_t bytes, int root, Watch& watch);
  void compare(CallKind kind, std::size_t count, const Reducing& how, int root, Watch& watch);

  void barrier(Watch& watch) override;
  void broadcast(std::byte* data, std::size_t bytes, int root, Watch& watch) override;
  void all_reduce(std::byte* data, std::size_t count, const Reducing& how, Watch& watch) override;
  void reduce(std::byte* data, std::size_t count, const Reducing& how, int root,
              Watch& watch) override;
  void all_gather(Const mine, Outputs outputs, std::size_t bytes, Watch& watch) override;
  void gather(Const mine, Outputs outputs, std::size_t bytes, int root, Watch& watch) override;
  void scatter(Inputs inputs, std::byte* mine, std::size_t bytes, int root, Watch& watch) override;
  void reduce_scatter(Inputs inputs, std::byte* mine, std::size_t count, const Reducing& how,
                      Watch& watch) override;
  void all_to_all(InputParts inputs, OutputParts outputs, Watch& watch) override;

 private:
  struct Range {
    std::size_t begin = 0;
    std::size_t size = 0;
  };

  CallFacts facts_of(CallKind kind);
  CallFacts facts_of(CallKind kind, std::size_t count, const Reducing& how);
  void compare(const CallFacts& facts, Watch& watch);
  // After the first phase of a call is published.
  void wait_and_compare(Watch& watch);
  // For a call in which only the root's data are read. Each rank compares its call with the root's,
  // so ranks that agree with the root agree with each other. A rank that makes another call
  // compares it with all. Of two roots, one finds the other. The rank that differs fails, and the
  // others learn it when they wait for it, which is at most kCells phases later.
  void wait_for_root_and_compare(int root, Watch& watch);
  void compare_with_all() const;
  void compare_with(int rank) const;
  // The memory in which a root writes so many bytes of a phase, and the others read them.
  std::byte* room_for(std::size_t bytes, Watch& watch);
  Const data_of(int rank, std::size_t bytes) const;
  void all_reduce_at_once(std::byte* data, std::size_t count, const Reducing& how,
                          const CallFacts& facts, Watch& watch);
  // Finds the data of all ranks, if they are in a block on each.
  bool find_in_place(std::byte* data, const CallFacts& facts, Watch& watch);
  // Reduces this rank's part of the data that were found, and writes it to all ranks.
  void reduce_in_place(std::size_t count, const Reducing& how, const CallFacts& facts,
                       Watch& watch);
  // False, on all ranks, if the data of some rank are not in a block.
  bool all_reduce_in_place(std::byte* data, std::size_t count, const Reducing& how,
                           const CallFacts& facts, Watch& watch);
  // Reduces this rank's part of each chunk, and gives it to those that take it.
  template <class Take>
  void reduce_by_parts(Const data, std::size_t count, const Reducing& how, const CallFacts& facts,
                       Watch& watch, const Take& take);
  // The part of a chunk that a rank reduces, in elements.
  Range part_of(std::size_t chunk, std::size_t element_bytes, int rank) const;

  // Data in the memory of another rank's process.
  struct Remote {
    std::uint64_t bytes = 0;
    std::uint64_t address = 0;  // 0: no rank may read it.
  };
  static Remote remote(ConstPart part, bool may_read);
  bool is_read(std::uint64_t bytes) const { return can_read_ && bytes > kReadBytes; }
  bool is_read(const Remote& part) const { return is_read(part.bytes) && part.address != 0; }
  // Whether all ranks pass true. Takes one phase.
  bool do_all(bool does_mine, const CallFacts& facts, Watch& watch);
  // Returns when all ranks have read. False if one could not: from then on, no rank reads.
  bool end_reads(bool has_read, const CallFacts& facts, Watch& watch);
  bool all_gather_by_reads(Const mine, Outputs outputs, const CallFacts& facts, Watch& watch);
  // Whether a rank with this call sends a table of its parts: if they differ, or are so large that
  // they may be read.
  static bool sends_table(const CallFacts& facts);
  // The part that a rank sends to another, by the first phase of an all_to_all.
  Remote sent(int from, int to) const;
  struct Amounts {
    std::uint64_t in_slots = 0;  // The most that a rank sends to another.
    bool has_reads = false;
  };
  // Whether each rank sends so many bytes to each.
  bool do_all_send(std::uint64_t bytes) const;
  // Both find what this rank receives.
  Amounts expect_all(std::uint64_t bytes);
  Amounts expect_by_tables(OutputParts outputs);
  // How many bytes of a slot there are for each rank.
  std::size_t share_bytes() const;

  int me() const { return phases_.rank(); }

  Phases& phases_;
  const std::vector<int>& names_;
  SharedBlocks& blocks_;
  const PeerMemory& peers_;
  const bool have_cpus_;
  bool can_read_ = false;             // All ranks can; known to all.
  bool gathers_by_reads_ = false;     // If can_read_; the same on all ranks.
  std::vector<Const> sources_;        // Of the running reduction, by rank.
  std::vector<std::byte*> in_place_;  // The data of each rank.
  std::vector<Remote> received_;      // By the running all_to_all, from each rank.
  std::uint32_t calls_ = 0;
};

}  // namespace distrun::shm
