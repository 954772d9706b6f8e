// The main() of every test program.
#include <cstdio>
#include <cstdlib>
#include <string>

#include <gtest/gtest.h>
#include <unistd.h>

#include "distrun/record.h"
#include "distrun/spawn.h"
#include "testsuites/harness/protocol/host_messages.h"
#include "testsuites/testing/registry.h"
#include "testsuites/testing/run_rank.h"
#include "testsuites/testing/test_host.h"

namespace {

// A test that exists but never runs would seem to pass.
bool has_distributed_tests_alone(const char* program) {
  const auto others = distrun::other_tests();
  for (const std::string& id : others) {
    std::fprintf(stderr,
                 "%s: %s is not a DISTRIBUTED_TEST and would never run: move it to "
                 "another program\n",
                 program, id.c_str());
  }
  return others.empty();
}

// Before all other initialisers, whose crashes then have a backtrace too.
[[gnu::constructor(101)]] void report_early_crashes() {
  if (std::getenv(distrun::kTestHostVariable) == nullptr) return;
  distrun::record([](int, char**) { return 0; }, 0, nullptr);
}

}  // namespace

int main(int, char** argv) {
  distrun::run_if_spawned();  // Tests may spawn processes of this program.
  // Ignores settings of other tools: the runner chooses, repeats and reports.
  for (const char* variable : {"GTEST_TOTAL_SHARDS", "GTEST_SHARD_INDEX"}) ::unsetenv(variable);
  GTEST_FLAG_SET(output, "");  // Its variable was read before main().
  int count = 1;
  ::testing::InitGoogleTest(&count, argv);
  distrun::run_rank_if_asked();
  if (std::getenv(distrun::kTestHostVariable) != nullptr) {
    if (!has_distributed_tests_alone(argv[0])) return 2;
    distrun::serve_registered_tests(STDIN_FILENO);
  }
  std::fprintf(stderr,
               "%s holds distributed tests; run them with: distrun test --binary %s\n"
               "Try 'distrun test --help'.\n",
               argv[0], argv[0]);
  return 2;
}
