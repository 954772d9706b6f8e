// RunProgress measures from outside how far the workers of this node have come (progress_watch.h).
//
//     RunProgress progress(output, store, workers, collectives);
//     if (const auto opened = progress.open(); !opened) …        // TCP traffic cannot be seen
//     ProgressWatch watch(io, limit, [&] { return progress.mark(store_port); }, on_change);
//
// Thread safety: the thread of the run only.
#pragma once

#include <cstdint>
#include <optional>

#include "distrun/result.h"
#include "launcher/run/network_traffic.h"
#include "launcher/run/progress_watch.h"
#include "launcher/run/run_collectives.h"
#include "launcher/run/run_output.h"
#include "launcher/run/store_host.h"
#include "launcher/run/worker_pool.h"

namespace distrun {

class RunProgress {
 public:
  // The arguments must outlive it.
  RunProgress(const RunOutput& output, const StoreHost& store, const WorkerPool& workers,
              const RunCollectives& collectives)
      : output_(output), store_(store), workers_(workers), collectives_(collectives) {}

  // Fails with kSystem if the kernel does not show the traffic. Marks then lack it.
  Result<void> open();

  // nullopt if workers may have to wait for distrun, because its reader is slow.
  std::optional<ProgressMark> mark(std::uint16_t store_port);

 private:
  const RunOutput& output_;
  const StoreHost& store_;
  const WorkerPool& workers_;
  const RunCollectives& collectives_;
  std::optional<NetworkTraffic> traffic_;
  ProgressMark last_;
};

}  // namespace distrun
