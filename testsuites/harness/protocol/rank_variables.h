// The variables and the folder of a rank. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace distrun {

// Identifies processes that a rank leaked. /proc/PID/environ shows only the initial environment of
// a program, which forks inherit. So a test host starts with rank_mark("") here, and each rank
// overwrites the value in place.
inline constexpr const char* kRankMarkVariable = "DISTRUN_TEST_RANK";

// Always of the same length.
std::string rank_mark(const std::string& text);

// Shared by the ranks of a node.
inline constexpr const char* kTestFolderVariable = "DISTRUN_TEST_FOLDER";
inline constexpr const char* kTestNodesVariable = "DISTRUN_TEST_NODES";      // On which ranks run.
inline constexpr const char* kTestBackendVariable = "DISTRUN_TEST_BACKEND";  // "gloo".
inline constexpr const char* kTestSeedVariable = "DISTRUN_TEST_SEED";  // The same on every rank.
// Set if a debugger runs a rank of the test: deadlines then do not apply.
inline constexpr const char* kTestDebuggedVariable = "DISTRUN_TEST_DEBUGGED";

// Set if a test may leave threads, descriptors, shared memory and files.
inline constexpr const char* kTestIgnoreLeaksVariable = "DISTRUN_TEST_IGNORE_LEAKS";

// Exit status of a rank whose test closed the result channel.
inline constexpr int kExitWithoutChannel = 119;

struct RankPlace {
  int rank = 0, ranks = 1;
  int local_rank = 0, local_ranks = 1;  // Among those of its node …
  int node = 0, nodes = 1;              // … which is one of these.
  std::string folder;                   // Shared by the ranks of its node.
  std::string backend;                  // "gloo"
  std::uint64_t seed = 0;
  bool is_debugged = false;      // Any rank of the test.
  std::string store_host;        // Where the ranks find their TCP store …
  std::uint16_t store_port = 0;  // … or 0: they meet in a file.
  std::string store_text;        // Both: "10.0.0.1:4711", "[fe80::1]:4711".
};

// A worker's variables (RANK, WORLD_SIZE, …), the store for init_process_group(), and the test's.
std::map<std::string, std::string> rank_variables(const RankPlace& place);

// "FOLDER/rank_3": the rank's current folder and TMPDIR.
std::string rank_folder(const std::string& folder, int rank);

}  // namespace distrun
