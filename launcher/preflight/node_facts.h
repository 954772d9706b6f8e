// NodeFacts is what `distrun check` measures on one node, before anything is compared.
//
//     const NodeFacts facts = read_node_facts(environment);
//     node_findings(facts)              // {"/dev/shm has 64 MiB: …"}
//
// What could not be measured is empty, and gives no finding.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace distrun {

struct FolderFacts {
  std::string path;
  bool exists = false, writable = false;
  std::uint64_t bytes = 0, free_bytes = 0;  // Of its file system.
};

// How much is left, and the limit that leaves so little.
struct Left {
  enum class Limit { kCgroup, kUser, kMachine };
  std::uint64_t amount = 0;
  Limit limit = Limit::kMachine;
};

struct InterfaceFacts {
  std::string name;
  bool is_up = false, has_address = false;
};

struct NodeFacts {
  std::optional<std::uint64_t> open_files;       // Soft limit.
  std::optional<Left> processes, memory;         // Processes and threads; bytes.
  std::optional<double> cgroup_cpus;             // The cgroup's limit of CPU time.
  int visible_cpus = 0;                          // CPUs that this process may run on.
  FolderFacts shared_memory, temporary;          // /dev/shm; TMPDIR or /tmp.
  bool has_tmpdir = false;                       // TMPDIR is set.
  int gpus = 0;                                  // Device files of NVIDIA.
  std::map<std::string, std::string> variables;  // Of PyTorch, Gloo, NCCL and OpenMP.

  // Of the network.
  std::string own_name;
  enum class Look { kFound, kNotFound, kSlow } own_name_look = Look::kFound;
  std::vector<InterfaceFacts> interfaces;
};

}  // namespace distrun
