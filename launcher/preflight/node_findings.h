// The problems of one node, without a comparison with others. Each finding says what to do.
//
//     for (const std::string& finding : node_findings(facts)) …   // "/dev/shm has 64 MiB: …"
//
// Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/units.h"
#include "launcher/preflight/node_facts.h"

namespace distrun {

// Each rank opens a socket per peer, and files for data loaders. 1,024 is what Linux gives a shell.
inline constexpr std::uint64_t kOpenFilesMin = 1024;
// A rank starts about as many threads as it has CPUs, and processes for data loaders.
inline constexpr std::uint64_t kProcessesMin = 256;
// `import torch` alone takes about a third of it.
inline constexpr std::uint64_t kMemoryMin = kGiB;
// Docker gives 64 MiB, which one batch of images can fill.
inline constexpr std::uint64_t kSharedMemoryMin = 256 * kMiB;
// For error files, compiled kernels and sockets.
inline constexpr std::uint64_t kTemporaryMin = 100 * kMiB;

std::vector<std::string> node_findings(const NodeFacts& facts);

// "64 MiB", "1.5 GiB"
std::string size_text(std::uint64_t bytes);

}  // namespace distrun
