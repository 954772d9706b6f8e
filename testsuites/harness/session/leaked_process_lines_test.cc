#include "testsuites/harness/session/leaked_process_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace distrun {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const KilledProcesses kSome{.killed = {{4711, "sleep"}}, .survivors = {{4712, "cp"}}};
constexpr const char* kEnded = "killed a process that tests leaked: 4711 (sleep)";
constexpr const char* kSurvivor = "could not kill a process: 4712 (cp) is stuck in the kernel";

TEST(LeakedProcessLinesTest, ReportsKilledProcessesAndSurvivors) {
  EXPECT_THAT(lines_about(kSome, WasInterrupted::kNo), ElementsAre(kEnded, kSurvivor));
  EXPECT_THAT(lines_about({}, WasInterrupted::kNo), IsEmpty());
}

TEST(LeakedProcessLinesTest, ReportsOnlySurvivorsAfterAnInterrupt) {
  EXPECT_THAT(lines_about(kSome, WasInterrupted::kYes), ElementsAre(kSurvivor));
}

}  // namespace
}  // namespace distrun
