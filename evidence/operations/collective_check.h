// CollectiveCheck compares the collectives that the ranks of a run record. It finds stragglers,
// ranks with different values, and differences from a recorded run.
//
//     CollectiveCheck check({.digests = true}, {.on_straggler = …, .on_difference = …});
//     check.begin();                         // An attempt starts.
//     check.add(rank, operation);            // When it starts, and again when it ends.
//     check.judge();                         // Calls the handlers.
//     check.line({})                         // "rank 2 has not entered all_reduce, number 8 of …"
//     check.end();                           // All ranks have ended.
//
// Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "evidence/operations/call_check.h"
#include "evidence/operations/collective_table.h"
#include "evidence/operations/digest_check.h"
#include "evidence/operations/recorded_digests.h"
#include "evidence/operations/straggler_watch.h"

namespace distrun {

class CollectiveCheck {
 public:
  struct Options {
    // False: only some ranks of the run are added. The handlers are not called then.
    bool sees_all_ranks = true;
    bool digests = false;                       // The ranks record digests.
    const RecordedDigests* recorded = nullptr;  // To compare each attempt with. Must outlive this.
  };

  // Each may be empty.
  struct Handlers {
    std::function<void(const Straggler&)> on_straggler;
    // The first difference between calls in each group: later ones may follow from it.
    std::function<void(const CallDifference&)> on_unlike_calls;
    // The first difference in each group: later ones follow from it.
    std::function<void(const DigestDifference&)> on_difference;
    // The first difference from the recorded run in each group.
    std::function<void(const RecordDifference&)> on_record_difference;
    // Each collective that all its ranks have ended.
    std::function<void(const CollectiveOfRanks&)> on_ended;
    // At the end, with a recorded run: what was compared, and whether nothing differs.
    std::function<void(const RecordedDigests& recorded, bool is_same)> on_record_compared;
    // At the end, with digests: how many collectives were compared, and how many operations are
    // unknown.
    std::function<void(std::uint64_t compared, std::uint64_t missed)> on_compared;
  };

  CollectiveCheck(const Options& options, Handlers handlers)
      : options_(options), handlers_(std::move(handlers)), table_(options.sees_all_ranks) {}

  // Forgets everything.
  void begin();

  void add(int rank, const Operation& operation) { table_.add(rank, operation); }
  // CollectiveTable::know_rank().
  void know_rank(int rank) { table_.know_rank(rank); }
  void miss(std::uint64_t operations) { missed_ += operations; }
  // CollectiveTable::lose_ends().
  void lose_ends(int node) { table_.lose_ends(node); }

  void judge();

  // Call it once after begin().
  void end();

  // CollectiveTable::line().
  std::string line(const CollectiveTable::Unknown& unknown) const { return table_.line(unknown); }
  // CollectiveTable::missing_in_last_of().
  std::string missing_in_last_of(int rank, const CollectiveTable::Others& others) const {
    return table_.missing_in_last_of(rank, others);
  }

 private:
  void compare_with_recording(const CollectiveOfRanks& all);

  const Options options_;
  const Handlers handlers_;
  CollectiveTable table_;
  StragglerWatch stragglers_;
  std::set<std::string> different_groups_, groups_of_unlike_calls_;
  std::uint64_t compared_ = 0, missed_ = 0;
  std::optional<RecordedDigests> recorded_;  // Not yet compared in this attempt.
  std::set<std::string> groups_unlike_recording_;
};

}  // namespace distrun
