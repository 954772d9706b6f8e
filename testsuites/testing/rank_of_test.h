// What a process that runs one rank of a test is told, by variables.
#pragma once

namespace distrun {

// Besides RANK, WORLD_SIZE and the others that workers have.
inline constexpr const char* kTestFolderVariable = "DISTRUN_TEST_FOLDER";    // All ranks share it.
inline constexpr const char* kTestBackendVariable = "DISTRUN_TEST_BACKEND";  // "gloo".

// How many assertions this process has made so far.
int assertions_made();

}  // namespace distrun
