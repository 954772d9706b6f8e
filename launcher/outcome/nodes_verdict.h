// NodesVerdict says how a run of several nodes ended: every node prints the same headline, and
// exits with the same status.
//
//     describe(verdict)        // "node 1 (gpu-7): rank 3 failed: exit code 7"
//
// Pure.
#pragma once

#include <string>

namespace distrun {

struct NodesVerdict {
  int status = 0;
  int node = 0;          // Whose worker failed, who got the signal, …
  std::string host;      // … and its name.
  std::string headline;  // "rank 3 failed: exit code 7"; empty where the run has succeeded.
  std::string details;   // Further lines, each with its end: of the worker, what it wrote last.
  std::string notes;     // Likewise, of what came after it: "  node 2 (gpu-8) is lost too: …".

  friend bool operator==(const NodesVerdict&, const NodesVerdict&) = default;
};

std::string describe(const NodesVerdict& verdict);

}  // namespace distrun
