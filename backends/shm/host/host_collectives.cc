#include "backends/shm/host/host_collectives.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <utility>

#include <unistd.h>

#include "backends/shm/host/full_fence.h"
#include "backends/shm/host/host_error.h"
#include "backends/shm/host/text_of.h"

namespace distrun::shm {

namespace {

// Up to this size, every rank reduces everything: that costs one phase, and parts cost two.
constexpr std::size_t kAtOnceBytes = std::size_t{64} * 1024;

// Data of this size stay in the first-level cache while they are reduced and copied.
constexpr std::size_t kInPlaceStepBytes = std::size_t{16} * 1024;

// The size of a part of an all_to_all, if a rank's parts differ.
constexpr std::uint64_t kDifferentParts = UINT64_MAX;

// Empty tensors have no address.
void copy_bytes(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (bytes != 0 && to != from) std::memcpy(to, from, bytes);
}

std::size_t part_end(std::size_t count, std::size_t per_line, int ranks, int end) {
  const std::size_t lines = (count + per_line - 1) / per_line;
  const std::size_t line = lines * static_cast<std::size_t>(end) / static_cast<std::size_t>(ranks);
  return std::min(line * per_line, count);
}

std::uint64_t size_of_each(Collectives::InputParts inputs, Collectives::OutputParts outputs) {
  const std::uint64_t size = inputs.front().bytes;
  const auto has_size = [size](const auto& part) { return part.bytes == size; };
  const bool are_equal = std::all_of(inputs.begin(), inputs.end(), has_size) &&
                         std::all_of(outputs.begin(), outputs.end(), has_size);
  return are_equal ? size : kDifferentParts;
}

// Perhaps, if their parts lie between each other.
bool do_overlap(Collectives::InputParts inputs, Collectives::OutputParts outputs) {
  const auto range_of = [](const auto& parts) {
    std::pair<std::uintptr_t, std::uintptr_t> range{UINTPTR_MAX, 0};
    for (const auto& part : parts) {
      const auto begin = reinterpret_cast<std::uintptr_t>(part.data);
      if (part.bytes == 0) continue;
      range.first = std::min(range.first, begin);
      range.second = std::max(range.second, begin + part.bytes);
    }
    return range;
  };
  const auto in = range_of(inputs), out = range_of(outputs);
  return in.first < out.second && out.first < in.second;
}

}  // namespace

CallFacts HostCollectives::facts_of(CallKind kind) {
  return {.number = ++calls_, .kind = static_cast<std::uint8_t>(kind), .element = kAnyElement};
}

CallFacts HostCollectives::facts_of(CallKind kind, std::size_t count, const Reducing& how) {
  CallFacts facts = facts_of(kind);
  facts.bytes = count * bytes_of(how.element);
  facts.element = static_cast<std::uint8_t>(how.element);
  facts.reduction = static_cast<std::uint8_t>(how.reduction);
  return facts;
}

void HostCollectives::wait_and_compare(Watch& watch) {
  phases_.wait_for_all(watch);
  compare_with_all();
}

void HostCollectives::wait_for_root_and_compare(int root, Watch& watch) {
  if (me() != root) {
    const bool is_ahead = phases_.has_published(root);
    phases_.wait_for(root, watch);
    if (is_ahead) phases_.prefetch_next(root);
    compare_with(root);
  } else {
    // Ranks that do not lead wait for others, and compare their calls.
    phases_.lead();
    for (int rank = 0; rank < ranks(); ++rank) {
      if (rank != me() && phases_.leads(rank)) compare_with(rank);
    }
  }
}

void HostCollectives::compare_with_all() const {
  for (int rank = 0; rank < ranks(); ++rank) {
    if (rank != me()) compare_with(rank);
  }
}

void HostCollectives::compare_with(int rank) const {
  const CallFacts &mine = phases_.facts(me()), theirs = phases_.facts(rank);
  if (is_same_call(mine, theirs)) return;
  throw HostError(HostError::Kind::kMismatch, rank,
                  text_of("the ranks make different calls: rank ",
                          names_[static_cast<std::size_t>(me())], " ", described(mine), "; rank ",
                          names_[static_cast<std::size_t>(rank)], " ", described(theirs)));
}

void HostCollectives::meet(Watch& watch) {
  const CallFacts facts = facts_of(CallKind::kBarrier);
  // No other process has this value at this address.
  const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
  const std::uint64_t mark =
      static_cast<std::uint64_t>(now) ^ (static_cast<std::uint64_t>(::getpid()) << 40);
  const Remote mine{.bytes = mark, .address = reinterpret_cast<std::uintptr_t>(&mark)};
  phases_.begin(facts, watch);
  std::memcpy(phases_.inline_bytes(), &mine, sizeof(mine));
  phases_.publish(watch);
  wait_and_compare(watch);
  bool finds_all = ranks() > 1;
  for (int rank = 0; rank < ranks() && finds_all; ++rank) {
    Remote its;
    std::memcpy(&its, phases_.inline_bytes(rank), sizeof(its));
    finds_all = rank == me() || peers_.finds(rank, its.address, its.bytes);
  }
  can_read_ = do_all(finds_all, facts, watch);
  if (!can_read_) return;
  const bool is_faster = have_cpus_ && peers_.are_faster(/*reads=*/ranks() - 1, /*copies=*/ranks());
  gathers_by_reads_ = do_all(is_faster, facts, watch);
}

bool HostCollectives::do_all(bool does_mine, const CallFacts& facts, Watch& watch) {
  phases_.begin(facts, watch);
  *phases_.inline_bytes() = std::byte{does_mine};
  phases_.publish(watch);
  phases_.wait_for_all(watch);
  bool do_all = true;
  for (int rank = 0; rank < ranks(); ++rank) {
    do_all = do_all && *phases_.inline_bytes(rank) != std::byte{0};
  }
  return do_all;
}

HostCollectives::Remote HostCollectives::remote(ConstPart part, bool may_read) {
  return {.bytes = part.bytes,
          .address = may_read ? reinterpret_cast<std::uintptr_t>(part.data) : 0};
}

bool HostCollectives::end_reads(bool has_read, const CallFacts& facts, Watch& watch) {
  // Each rank stays until all have read. If one has ended, another process may have its number.
  watch.check_present();
  can_read_ = do_all(has_read, facts, watch);
  // A rank that failed while it waited has given its data back to the program, which may have
  // written to them before this rank read them.
  full_fence();
  watch.check_failed();
  return can_read_;
}

std::byte* HostCollectives::room_for(std::size_t bytes, Watch& watch) {
  if (bytes <= kInlineBytes) return phases_.inline_bytes();
  return bytes <= kSmallBytes ? phases_.small_slot() : phases_.take_slot(watch);
}

HostCollectives::Const HostCollectives::data_of(int rank, std::size_t bytes) const {
  if (bytes <= kInlineBytes) return phases_.inline_bytes(rank);
  return bytes <= kSmallBytes ? phases_.small_slot(rank) : phases_.slot(rank);
}

HostCollectives::Range HostCollectives::part_of(std::size_t chunk, std::size_t element_bytes,
                                                int rank) const {
  const std::size_t per_line = kLineBytes / element_bytes;
  const std::size_t begin = part_end(chunk, per_line, ranks(), rank);
  return {begin, part_end(chunk, per_line, ranks(), rank + 1) - begin};
}

std::size_t HostCollectives::share_bytes() const {
  return phases_.slot_bytes() / static_cast<std::size_t>(ranks()) / kLineBytes * kLineBytes;
}

void HostCollectives::compare(const CallFacts& facts, Watch& watch) {
  phases_.begin(facts, watch);
  phases_.publish(watch);
  wait_and_compare(watch);
}

void HostCollectives::compare(CallKind kind, std::size_t bytes, int root, Watch& watch) {
  CallFacts facts = facts_of(kind);
  facts.bytes = bytes;
  facts.root = root;
  compare(facts, watch);
}

void HostCollectives::compare(CallKind kind, std::size_t count, const Reducing& how, int root,
                              Watch& watch) {
  CallFacts facts = facts_of(kind, count, how);
  facts.root = root;
  compare(facts, watch);
}

void HostCollectives::barrier(Watch& watch) { compare(CallKind::kBarrier, watch); }

void HostCollectives::broadcast(std::byte* data, std::size_t bytes, int root, Watch& watch) {
  CallFacts facts = facts_of(CallKind::kBroadcast);
  facts.bytes = bytes;
  facts.root = root;
  std::size_t done = 0;
  do {
    const std::size_t size = std::min(phases_.slot_bytes(), bytes - done);
    phases_.begin(facts, watch);
    if (me() == root) copy_bytes(room_for(size, watch), data + done, size);
    phases_.publish(watch);
    if (done == 0) {
      wait_for_root_and_compare(root, watch);
    } else if (me() != root) {
      phases_.wait_for(root, watch);
    }
    if (me() != root) copy_bytes(data + done, data_of(root, size), size);
    done += size;
  } while (done < bytes);
}

void HostCollectives::all_reduce(std::byte* data, std::size_t count, const Reducing& how,
                                 Watch& watch) {
  const CallFacts facts = facts_of(CallKind::kAllReduce, count, how);
  const auto at_once =
      std::min(kAtOnceBytes / static_cast<std::size_t>(ranks()), phases_.slot_bytes());
  if (facts.bytes <= at_once) return all_reduce_at_once(data, count, how, facts, watch);
  if (facts.bytes >= kInPlaceBytes && all_reduce_in_place(data, count, how, facts, watch)) return;
  reduce_by_parts(data, count, how, facts, watch, [&](int rank, const Range& bytes) {
    copy_bytes(data + bytes.begin, phases_.slot(rank), bytes.size);
  });
}

void HostCollectives::all_reduce_at_once(std::byte* data, std::size_t count, const Reducing& how,
                                         const CallFacts& facts, Watch& watch) {
  const bool is_inline = facts.bytes <= kInlineBytes;
  phases_.begin(facts, watch);
  copy_bytes(is_inline ? phases_.inline_bytes() : phases_.take_slot(watch), data, facts.bytes);
  phases_.publish(watch);
  wait_and_compare(watch);
  for (int rank = 0; rank < ranks(); ++rank) {
    const Const theirs = is_inline ? phases_.inline_bytes(rank) : phases_.slot(rank);
    sources_[static_cast<std::size_t>(rank)] = rank == me() ? data : theirs;
  }
  shm::reduce(how, sources_.data(), ranks(), count, data);
}

bool HostCollectives::find_in_place(std::byte* data, const CallFacts& facts, Watch& watch) {
  const BlockPlace mine = blocks_.place_of(data, facts.bytes);
  phases_.begin(facts, watch);
  std::memcpy(phases_.inline_bytes(), &mine, sizeof(mine));
  phases_.publish(watch);
  wait_and_compare(watch);
  std::vector<BlockPlace> places(names_.size());
  for (int rank = 0; rank < ranks(); ++rank) {
    BlockPlace& theirs = places[static_cast<std::size_t>(rank)];
    std::memcpy(&theirs, phases_.inline_bytes(rank), sizeof(theirs));
    if (!theirs) return false;
  }
  for (int rank = 0; rank < ranks(); ++rank) {
    const auto at = static_cast<std::size_t>(rank);
    in_place_[at] = rank == me() ? data : blocks_.data_of(rank, places[at], facts.bytes);
  }
  return true;
}

bool HostCollectives::all_reduce_in_place(std::byte* data, std::size_t count, const Reducing& how,
                                          const CallFacts& facts, Watch& watch) {
  try {
    if (!find_in_place(data, facts, watch)) return false;
    // A rank that has failed does not wait for the others: its data may be the program's again.
    watch.check_failed();
    reduce_in_place(count, how, facts, watch);
    full_fence();  // A failure came before what the program wrote.
    watch.check_failed();
    return true;
  } catch (...) {
    // The others may go on, with the data as they are. If detaching them fails for want of memory,
    // check_failed() keeps what the program writes next from becoming a result.
    blocks_.detach(data);
    throw;
  }
}

// Nobody else reads or writes this rank's part.
void HostCollectives::reduce_in_place(std::size_t count, const Reducing& how,
                                      const CallFacts& facts, Watch& watch) {
  const std::size_t element_bytes = bytes_of(how.element);
  const Range mine = part_of(count, element_bytes, me());
  for (std::size_t done = 0; done < mine.size;) {
    const std::size_t some = std::min(kInPlaceStepBytes / element_bytes, mine.size - done);
    const std::size_t begin = (mine.begin + done) * element_bytes;
    for (int rank = 0; rank < ranks(); ++rank) {
      const auto at = static_cast<std::size_t>(rank);
      sources_[at] = in_place_[at] + begin;
    }
    std::byte* result = in_place_[static_cast<std::size_t>(me())] + begin;
    shm::reduce(how, sources_.data(), ranks(), some, result);
    for (std::byte* theirs : in_place_) copy_bytes(theirs + begin, result, some * element_bytes);
    done += some;
  }
  phases_.begin(facts, watch);
  phases_.publish(watch);
  phases_.wait_for_all(watch);
}

template <class Take>
void HostCollectives::reduce_by_parts(Const data, std::size_t count, const Reducing& how,
                                      const CallFacts& facts, Watch& watch, const Take& take) {
  const std::size_t element_bytes = bytes_of(how.element);
  const std::size_t chunk_elements = phases_.slot_bytes() / element_bytes;
  std::size_t done = 0;
  do {
    const std::size_t chunk = std::min(chunk_elements, count - done);
    const Const begin = data + done * element_bytes;
    const Range mine = part_of(chunk, element_bytes, me());
    phases_.begin(facts, watch);
    std::byte* slot = phases_.take_slot(watch);
    // Nobody else reads this rank's part.
    const std::size_t after = mine.begin + mine.size;
    copy_bytes(slot, begin, mine.begin * element_bytes);
    copy_bytes(slot + after * element_bytes, begin + after * element_bytes,
               (chunk - after) * element_bytes);
    phases_.publish(watch);
    if (done == 0) {
      wait_and_compare(watch);
    } else {
      phases_.wait_for_all(watch);
    }
    for (int rank = 0; rank < ranks(); ++rank) {
      const Const chunk_of_rank = rank == me() ? begin : phases_.slot(rank);
      sources_[static_cast<std::size_t>(rank)] = chunk_of_rank + mine.begin * element_bytes;
    }
    // Slots of the last phase keep their data during this one.
    phases_.begin(facts, watch);
    std::byte* result = phases_.take_slot(watch);
    shm::reduce(how, sources_.data(), ranks(), mine.size, result);
    phases_.publish(watch);
    for (int i = 0; i < ranks(); ++i) {
      const int rank = (me() + i) % ranks();
      const Range part = part_of(chunk, element_bytes, rank);
      phases_.wait_for(rank, watch);
      take(rank, Range{(done + part.begin) * element_bytes, part.size * element_bytes});
    }
    done += chunk;
  } while (done < count);
}

void HostCollectives::reduce(std::byte* data, std::size_t count, const Reducing& how, int root,
                             Watch& watch) {
  CallFacts facts = facts_of(CallKind::kReduce, count, how);
  facts.root = root;
  reduce_by_parts(data, count, how, facts, watch, [&](int rank, const Range& bytes) {
    if (me() == root) copy_bytes(data + bytes.begin, phases_.slot(rank), bytes.size);
  });
}

void HostCollectives::all_gather(Const mine, Outputs outputs, std::size_t bytes, Watch& watch) {
  CallFacts facts = facts_of(CallKind::kAllGather);
  facts.bytes = bytes;
  if (gathers_by_reads_ && is_read(bytes) && all_gather_by_reads(mine, outputs, facts, watch))
    return;
  std::size_t done = 0;
  do {
    const std::size_t size = std::min(phases_.slot_bytes(), bytes - done);
    phases_.begin(facts, watch);
    copy_bytes(phases_.take_slot(watch), mine + done, size);
    phases_.publish(watch);
    if (done == 0) wait_and_compare(watch);
    for (int i = 0; i < ranks(); ++i) {
      const int rank = (me() + i) % ranks();
      phases_.wait_for(rank, watch);
      std::byte* output = outputs[static_cast<std::size_t>(rank)] + done;
      copy_bytes(output, rank == me() ? mine + done : phases_.slot(rank), size);
    }
    done += size;
  } while (done < bytes);
}

bool HostCollectives::all_gather_by_reads(Const mine, Outputs outputs, const CallFacts& facts,
                                          Watch& watch) {
  const Remote its = remote({mine, facts.bytes}, /*may_read=*/true);
  phases_.begin(facts, watch);
  std::memcpy(phases_.inline_bytes(), &its, sizeof(its));
  phases_.publish(watch);
  wait_and_compare(watch);
  copy_bytes(outputs[static_cast<std::size_t>(me())], mine, facts.bytes);
  bool has_read = true;
  for (int i = 1; i < ranks() && has_read; ++i) {
    const int rank = (me() + i) % ranks();
    Remote theirs;
    std::memcpy(&theirs, phases_.inline_bytes(rank), sizeof(theirs));
    std::byte* output = outputs[static_cast<std::size_t>(rank)];
    has_read = peers_.read(rank, theirs.address, output, facts.bytes);
  }
  return end_reads(has_read, facts, watch);
}

void HostCollectives::gather(Const mine, Outputs outputs, std::size_t bytes, int root,
                             Watch& watch) {
  CallFacts facts = facts_of(CallKind::kGather);
  facts.bytes = bytes;
  facts.root = root;
  std::size_t done = 0;
  do {
    const std::size_t size = std::min(phases_.slot_bytes(), bytes - done);
    phases_.begin(facts, watch);
    if (me() != root) copy_bytes(phases_.take_slot(watch), mine + done, size);
    phases_.publish(watch);
    if (done == 0) wait_and_compare(watch);
    for (int rank = 0; rank < ranks() && me() == root; ++rank) {
      phases_.wait_for(rank, watch);
      std::byte* output = outputs[static_cast<std::size_t>(rank)] + done;
      copy_bytes(output, rank == me() ? mine + done : phases_.slot(rank), size);
    }
    done += size;
  } while (done < bytes);
}

void HostCollectives::scatter(Inputs inputs, std::byte* mine, std::size_t bytes, int root,
                              Watch& watch) {
  CallFacts facts = facts_of(CallKind::kScatter);
  facts.bytes = bytes;
  facts.root = root;
  const std::size_t share = share_bytes();
  std::size_t done = 0;
  do {
    const std::size_t size = std::min(share, bytes - done);
    phases_.begin(facts, watch);
    std::byte* slot = me() == root ? phases_.take_slot(watch) : nullptr;
    for (int rank = 0; rank < ranks() && me() == root; ++rank) {
      const auto index = static_cast<std::size_t>(rank);
      if (rank != root) copy_bytes(slot + index * share, inputs[index] + done, size);
    }
    phases_.publish(watch);
    if (done == 0) {
      wait_for_root_and_compare(root, watch);
    } else if (me() != root) {
      phases_.wait_for(root, watch);
    }
    const auto index = static_cast<std::size_t>(me());
    copy_bytes(mine + done,
               me() == root ? inputs[index] + done : phases_.slot(root) + index * share, size);
    done += size;
  } while (done < bytes);
}

void HostCollectives::reduce_scatter(Inputs inputs, std::byte* mine, std::size_t count,
                                     const Reducing& how, Watch& watch) {
  const std::size_t element_bytes = bytes_of(how.element);
  const CallFacts facts = facts_of(CallKind::kReduceScatter, count, how);
  const std::size_t share = share_bytes();
  std::size_t done = 0;
  do {
    const std::size_t size = std::min(share, facts.bytes - done);
    phases_.begin(facts, watch);
    std::byte* slot = phases_.take_slot(watch);
    for (int rank = 0; rank < ranks(); ++rank) {
      const auto index = static_cast<std::size_t>(rank);
      if (rank != me()) copy_bytes(slot + index * share, inputs[index] + done, size);
    }
    phases_.publish(watch);
    if (done == 0) {
      wait_and_compare(watch);
    } else {
      phases_.wait_for_all(watch);
    }
    const auto mine_at = static_cast<std::size_t>(me());
    for (int rank = 0; rank < ranks(); ++rank) {
      sources_[static_cast<std::size_t>(rank)] =
          rank == me() ? inputs[mine_at] + done : phases_.slot(rank) + mine_at * share;
    }
    shm::reduce(how, sources_.data(), ranks(), size / element_bytes, mine + done);
    done += size;
  } while (done < facts.bytes);
}

// In the first phase, a slot starts with a table of the parts that the rank sends, unless all have
// the same small size: the receivers check the sizes, and all learn the number of phases,
// and what is read. Shares leave room for it on all ranks, so that they are equal.
void HostCollectives::all_to_all(InputParts inputs, OutputParts outputs, Watch& watch) {
  CallFacts facts = facts_of(CallKind::kAllToAll);
  facts.bytes = size_of_each(inputs, outputs);
  const auto mine_at = static_cast<std::size_t>(me());
  const auto count = static_cast<std::size_t>(ranks());
  const bool has_table = sends_table(facts);
  // If parts overlap, this rank changes its inputs.
  const bool may_read = has_table && can_read_ && !do_overlap(inputs, outputs) &&
                        peers_.are_faster(/*reads=*/1, /*copies=*/2);
  Amounts amounts;
  bool has_read = true;
  std::size_t done = 0;
  do {
    const bool is_first = done == 0;
    const std::size_t table = is_first ? count * sizeof(Remote) : 0;
    const std::size_t share = (phases_.slot_bytes() - table) / count / kLineBytes * kLineBytes;
    const auto size_of = [&](const Remote& part) {
      return done < part.bytes && !is_read(part) ? std::min(share, part.bytes - done) : 0;
    };
    phases_.begin(facts, watch);
    std::byte* slot = phases_.take_slot(watch);
    for (std::size_t to = 0; to < count; ++to) {
      const Remote its = remote(inputs[to], may_read);
      if (has_table && is_first) std::memcpy(slot + to * sizeof(its), &its, sizeof(its));
      if (to == mine_at) continue;
      copy_bytes(slot + (has_table ? table : 0) + to * share, inputs[to].data + done, size_of(its));
    }
    phases_.publish(watch);
    if (is_first) {
      wait_and_compare(watch);
      amounts = !has_table && do_all_send(facts.bytes) ? expect_all(facts.bytes)
                                                       : expect_by_tables(outputs);
      copy_bytes(outputs[mine_at].data, inputs[mine_at].data, inputs[mine_at].bytes);
    }
    for (std::size_t i = 1; i < count; ++i) {
      const std::size_t at = (mine_at + i) % count;
      const int from = static_cast<int>(at);
      const Remote& its = received_[at];
      phases_.wait_for(from, watch);
      if (is_first && is_read(its)) {
        has_read = has_read && peers_.read(from, its.address, outputs[at].data, its.bytes);
      }
      const std::size_t before = sends_table(phases_.facts(from)) ? table : 0;
      copy_bytes(outputs[at].data + done, phases_.slot(from) + before + mine_at * share,
                 size_of(its));
    }
    done += share;
  } while (done < amounts.in_slots);
  if (amounts.has_reads && !end_reads(has_read, facts, watch)) all_to_all(inputs, outputs, watch);
}

bool HostCollectives::sends_table(const CallFacts& facts) { return facts.bytes > kReadBytes; }

HostCollectives::Remote HostCollectives::sent(int from, int to) const {
  const CallFacts& facts = phases_.facts(from);
  if (!sends_table(facts)) return {.bytes = facts.bytes};
  Remote its;
  std::memcpy(&its, phases_.slot(from) + static_cast<std::size_t>(to) * sizeof(its), sizeof(its));
  return its;
}

bool HostCollectives::do_all_send(std::uint64_t bytes) const {
  for (int rank = 0; rank < ranks(); ++rank) {
    if (phases_.facts(rank).bytes != bytes) return false;
  }
  return true;
}

HostCollectives::Amounts HostCollectives::expect_all(std::uint64_t bytes) {
  received_.assign(names_.size(), Remote{.bytes = bytes});
  return {.in_slots = bytes};
}

HostCollectives::Amounts HostCollectives::expect_by_tables(OutputParts outputs) {
  received_.clear();
  for (int from = 0; from < ranks(); ++from) received_.push_back(sent(from, me()));
  Amounts amounts;
  for (int from = 0; from < ranks(); ++from) {
    const std::uint64_t expected = outputs[static_cast<std::size_t>(from)].bytes;
    for (int to = 0; to < ranks(); ++to) {
      const Remote part = sent(from, to);
      if (to == me() && part.bytes != expected) {
        const int name = names_[static_cast<std::size_t>(from)];
        throw HostError(HostError::Kind::kMismatch, from,
                        text_of("all_to_all: rank ", name, " sends ", part.bytes, " bytes to rank ",
                                names_[static_cast<std::size_t>(me())],
                                ", whose output for them has ", expected));
      }
      if (from == to) continue;
      if (is_read(part)) {
        amounts.has_reads = true;
      } else {
        amounts.in_slots = std::max(amounts.in_slots, part.bytes);
      }
    }
  }
  return amounts;
}

}  // namespace distrun::shm
