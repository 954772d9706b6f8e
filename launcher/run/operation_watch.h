// OperationWatch reads what the workers of this node record of their collectives, sends and
// receives (common/operations/operation_pages.h).
//
//     OperationWatch watch(io, plan, {.on_operation = …, .on_missed = …, .on_read = …});
//     place.operations = watch.open();         // empty: it cannot record; nothing else changes
//     watch.begin_attempt();
//     …
//     watch.read_all();  // now, instead of at the next reading
//     watch.end();
//
// Thread safety: the thread of `io` only.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "common/operations/operation_pages.h"
#include "launcher/plan/plan.h"

namespace distrun {

class OperationWatch {
 public:
  struct Handlers {
    // An operation that is in progress is passed on again when it has ended, or, with tells_end
    // false, when its end can no longer be known.
    std::function<void(const WorkerPlan& worker, const Operation&)> on_operation;
    // Operations that were overwritten before they were read.
    std::function<void(const WorkerPlan& worker, std::uint64_t missed)> on_missed;
    // After each reading.
    std::function<void()> on_read;
  };

  // `plan` must outlive it.
  OperationWatch(boost::asio::io_context& io, const LaunchPlan& plan, Handlers handlers)
      : plan_(plan), handlers_(std::move(handlers)), timer_(io) {}
  OperationWatch(const OperationWatch&) = delete;
  OperationWatch& operator=(const OperationWatch&) = delete;

  // Returns OperationPages::file(); empty if the memory cannot be had.
  std::string open();

  // Requires that no worker runs.
  void begin_attempt();

  // Does not call on_read.
  void read_all();

  // Reads the rest.  Handlers are not called after this, until the next attempt.
  void end();

  struct LastOperation {
    std::string text;              // "in all_reduce 31", "after all_reduce 31"; empty: none.
    std::uint64_t begun = 0;       // The operations that the worker has started.
    std::uint32_t collective = 0;  // Operation::sequence of its last collective; 0: none.
  };
  // By local rank.
  std::vector<LastOperation> last_operations();

  // The workers that record, even if they have not started an operation.
  std::vector<LocalRank> recording() const;

  // The operations that all workers have started.
  std::uint64_t begun() const;

 private:
  struct Reader {
    std::uint64_t seen = 0;      // Operations up to this number were read.
    std::uint64_t settled = 0;   // Operations that the worker had started at the previous reading.
    std::deque<Operation> open;  // In progress when they were read.
    Operation last;              // The one with the highest number that was read.
    std::uint32_t last_collective = 0;
    std::uint64_t missed = 0;  // Since on_missed was called.
  };

  void wait();
  // `all`: including an operation that a worker may be writing just now.
  void read(bool all);
  void read_open(std::size_t worker);
  void take(std::size_t worker, const Operation& operation);
  void lose_end(std::size_t worker, Operation operation);

  const LaunchPlan& plan_;
  const Handlers handlers_;
  std::optional<OperationPages> pages_;
  std::vector<Reader> readers_;  // By local rank.
  bool has_ended_ = true;
  boost::asio::steady_timer timer_;
};

}  // namespace distrun
