// The variables and the folder of one rank of a test.  Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace distrun {

// Processes that a rank leaked are known by it.  A test host has it from its start on,
// with rank_mark("") as its value, and a rank writes its own over that: only what was there at the
// start of a program shows in /proc/PID/environ, which forks inherit.
inline constexpr const char* kRankMarkVariable = "DISTRUN_TEST_RANK";

// Always as long.
std::string rank_mark(const std::string& text);

inline constexpr const char* kTestFolderVariable = "DISTRUN_TEST_FOLDER";    // All ranks share it.
inline constexpr const char* kTestBackendVariable = "DISTRUN_TEST_BACKEND";  // "gloo".
inline constexpr const char* kTestSeedVariable = "DISTRUN_TEST_SEED";        // The same for all.
// Set where somebody debugs a rank of the test, and deadlines do not count.
inline constexpr const char* kTestDebuggedVariable = "DISTRUN_TEST_DEBUGGED";

struct RankPlace {
  int rank = 0;
  int ranks = 1;
  std::string folder;   // All ranks of the test share it.
  std::string backend;  // "gloo"
  std::uint64_t seed = 0;
  bool is_debugged = false;  // This rank, or another of the test.
};

// Those of a worker (RANK, WORLD_SIZE, …), those that make init_process_group() meet in a file, and
// the test's own.
std::map<std::string, std::string> rank_variables(const RankPlace& place);

// "FOLDER/rank_3": its current folder and TMPDIR.
std::string rank_folder(const std::string& folder, int rank);

}  // namespace distrun
