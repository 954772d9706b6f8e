// NodesVerdict says how a run of several nodes ended. All nodes print the same headline and exit
// with the same status.
//
//     describe(verdict)        // "node 1 (gpu-7): rank 3 failed: exit code 7"
//
// Pure.
#pragma once

#include <string>

namespace distrun {

struct NodesVerdict {
  int status = 0;
  int node = 0;              // Which node ended the run …
  std::string host;          // … and its name; empty if no node is to blame.
  std::string headline;      // "rank 3 failed: exit code 7"; empty if the run succeeded.
  std::string details;       // Further lines about the worker, such as its last output.
  std::string notes;         // Lines on later events: "  node 2 (gpu-8) is lost too: …".
  int signal = 0;            // That ended the run on one node: the workers of all get it. 0: none.
  bool is_of_node_0 = true;  // Node 0 knows it. False if node 0 is lost.

  friend bool operator==(const NodesVerdict&, const NodesVerdict&) = default;
};

// `are_ranks`: each node is one rank. "gpu-7: rank 3 failed: exit code 7"
std::string describe(const NodesVerdict& verdict, bool are_ranks = false);

}  // namespace distrun
