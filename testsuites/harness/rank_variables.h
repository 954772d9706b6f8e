// The variables and the folder of one rank of a test.  Pure.
#pragma once

#include <map>
#include <string>

namespace distrun {

// By it processes are known that a rank has left behind.
inline constexpr const char* kRankMarkVariable = "DISTRUN_TEST_RANK";
inline constexpr const char* kTestFolderVariable = "DISTRUN_TEST_FOLDER";    // All ranks share it.
inline constexpr const char* kTestBackendVariable = "DISTRUN_TEST_BACKEND";  // "gloo".

struct RankPlace {
  int rank = 0;
  int ranks = 1;
  std::string folder;   // All ranks of the test share it.
  std::string backend;  // "gloo"
  std::string mark;     // "DISTRUN_TEST_RANK=…"
};

// Those of a worker (RANK, WORLD_SIZE, …), those that make init_process_group() meet in a file, and
// the test's own.
std::map<std::string, std::string> rank_variables(const RankPlace& place);

// "FOLDER/rank_3": its current folder and TMPDIR.
std::string rank_folder(const std::string& folder, int rank);

}  // namespace distrun
