// where_ranks_are reports what ranks are doing: one line, which starts with the ranks that others
// wait for, and a tree of all stacks. The line is about the main threads or, if a main thread only
// waits for another thread to end, about a thread that is in a collective or in the user's code.
//
//     const Whereabouts where = where_ranks_are(ranks);
//     // rank 3 in load (train.py:12); ranks 0-2 wait in all_reduce, called by step (train.py:40)
//     //   main (train.py:40)
//     //   rank 3
//     //     load (train.py:12)
//     //   ranks 0-2
//     //     all_reduce (torch/distributed/distributed_c10d.py:2810)
//     //   other threads of ranks 0-2
//     //     …
//
// Pure.
#pragma once

#include <string>
#include <vector>

#include "evidence/stack.h"

namespace distrun {

struct RankStacks {
  int rank = 0;
  std::vector<ProcessStacks> processes;  // The worker, then its descendants.
  // What it waits for in the store, such as "for ready/3"; empty if unknown.
  std::string awaited;
};

struct Whereabouts {
  std::string line;    // Without a newline; empty if nothing is known.
  std::string stacks;  // Indented lines, with newlines.
};

// Source paths in `folder` are shown relative to it.
Whereabouts where_ranks_are(const std::vector<RankStacks>& ranks, const std::string& folder = "");

}  // namespace distrun
