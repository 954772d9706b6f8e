// WorkerStacks reads where the workers of this node are.
//
//     WorkerStacks stacks;
//     const Whereabouts where = stacks.read(workers.running(), store.waits());
//
// Blocks until all stacks are read, at most twelve seconds. Meanwhile no process may be reaped.
#pragma once

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
  // `waits`: what processes wait for in the store.
  Whereabouts read(const std::vector<WorkerPool::Processes>& workers,
                   const std::unordered_map<pid_t, std::string>& waits);

 private:
  StackCollector collector_;
};

}  // namespace distrun
