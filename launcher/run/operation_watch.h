// OperationWatch reads what the workers of this node record of their collectives
// (common/operations/operation_pages.h), and finds stragglers and ranks with different values.
//
//     OperationWatch watch(io, plan, {.on_straggler = …, .on_difference = …});
//     place.operations = watch.open();         // empty: it cannot record; nothing else changes
//     watch.begin_attempt();
//     …
//     watch.line();      // "rank 2 has not entered all_reduce, number 8 of …", for a hang
//     watch.end();
//
// Thread safety: the thread of `io` only.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "common/operations/operation_pages.h"
#include "common/rank.h"
#include "evidence/operations/collective_table.h"
#include "evidence/operations/digest_check.h"
#include "evidence/operations/recorded_digests.h"
#include "evidence/operations/straggler_watch.h"
#include "launcher/plan/plan.h"

namespace distrun {

class OperationWatch {
 public:
  struct Handlers {
    std::function<void(const Straggler&)> on_straggler;
    // The first difference in each group: later ones follow from it.
    std::function<void(const DigestDifference&)> on_difference;
    // The first difference from the recorded run in each group.
    std::function<void(const RecordDifference&)> on_record_difference;
    // Each collective that every rank of this node has ended.
    std::function<void(const CollectiveOfRanks&)> on_ended;
    // At the end, with a recorded run: what was compared, and whether nothing differs.
    std::function<void(const RecordedDigests& recorded, bool is_same)> on_record_compared;
    // At the end, with --digest: how many collectives were compared, and how many operations were
    // overwritten before they were read.
    std::function<void(std::uint64_t compared, std::uint64_t missed)> on_compared;
    // For --trace; each may be empty. An operation that is in progress is passed on again when it
    // has ended, or, with tells_end false, when its end can no longer be known.
    std::function<void(LocalRank, const Operation&)> on_operation = {};
    // Operations that were overwritten before they were read.
    std::function<void(LocalRank, std::uint64_t missed)> on_missed = {};
  };

  // `recorded`: the run to compare each attempt with, or null. The arguments must outlive it.
  OperationWatch(boost::asio::io_context& io, const LaunchPlan& plan,
                 const RecordedDigests* recorded, Handlers handlers);
  OperationWatch(const OperationWatch&) = delete;
  OperationWatch& operator=(const OperationWatch&) = delete;

  // Returns OperationPages::file(); empty if the memory cannot be had.
  std::string open();

  // Requires that no worker runs.
  void begin_attempt();

  // Reads the rest.  Handlers are not called after this, until the next attempt.
  void end();

  // The collectives that ranks wait in, and the missing ranks; empty if no rank is in one.
  std::string line();

  struct LastOperation {
    std::string text;              // "in all_reduce 31", "after all_reduce 31"; empty: none.
    std::uint64_t begun = 0;       // The operations that the worker has started.
    std::uint32_t collective = 0;  // Operation::sequence of its last collective; 0: none.
  };
  // By local rank.
  std::vector<LastOperation> last_operations();

  // The operations that all workers have started.
  std::uint64_t begun() const;

 private:
  struct Reader {
    std::uint64_t seen = 0;      // Operations up to this number were read.
    std::uint64_t settled = 0;   // Operations that the worker had started at the previous reading.
    std::deque<Operation> open;  // In progress when they were read.
    std::uint32_t last_collective = 0;
    std::uint64_t missed = 0;  // Since on_missed was called.
  };

  void wait();
  // `all`: including an operation that a worker may be writing just now.
  void read(bool all);
  void read_open(std::size_t worker);
  void take(std::size_t worker, const Operation& operation);
  void lose_end(std::size_t worker, Operation operation);
  void judge();
  void compare_with_recording(const CollectiveOfRanks& all);

  const LaunchPlan& plan_;
  const Handlers handlers_;
  std::optional<OperationPages> pages_;
  std::vector<Reader> readers_;  // By local rank.
  CollectiveTable table_;
  StragglerWatch stragglers_;
  std::set<std::string> different_groups_;
  std::uint64_t compared_ = 0, missed_ = 0;
  const RecordedDigests* const all_recorded_;
  std::optional<RecordedDigests> recorded_;  // Not yet compared in this attempt.
  std::set<std::string> groups_unlike_recording_;
  bool has_ended_ = true;
  boost::asio::steady_timer timer_;
};

}  // namespace distrun
