// WorkerStacks reads where the workers of this node are.
//
//     WorkerStacks stacks;
//     const Whereabouts where = stacks.read(workers.running(), store.waits(), 10s);
//
// Blocks until all stacks are read, at most two seconds beyond the limit. Meanwhile no process may
// be reaped.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include <sys/types.h>

#include "evidence/report/where_ranks_are.h"
#include "evidence/stacks/stack_collector.h"
#include "launcher/run/worker_pool.h"

namespace distrun {

class WorkerStacks {
 public:
  // `waits`: what processes wait for in the store. `time_limit`: in total, for all workers.
  // `ras_port`: at which distrun has asked RAS of NCCL; its own connections are not shown.
  Whereabouts read(const std::vector<WorkerPool::Processes>& workers,
                   const std::unordered_map<pid_t, std::string>& waits,
                   std::chrono::milliseconds time_limit, std::optional<std::uint16_t> ras_port);

 private:
  StackCollector collector_;
};

}  // namespace distrun
