// The example of uneven inputs under `distrun launch`.
#include <map>
#include <set>
#include <sstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/test/run_program.h"

namespace distrun {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;
using testing::ProgramResult;
using testing::run_program;

TEST(TrainUnevenTest, RanksWithOneTwoAndThreePartsOfTheDataEndWithTheSameModel) {
  const ProgramResult result =
      run_program({DISTRUN_PROGRAM, "launch", "--timeout", "100", "--nproc-per-node", "3",
                   TRAIN_UNEVEN, EXAMPLES_DIR "/data/digits.csv"});
  ASSERT_EQ(result.end, ProcessEnd(ExitedWith{0})) << result.out << result.err;
  std::map<int, int> steps;
  std::set<double> accuracies;
  std::istringstream lines(result.out);
  for (std::string line; std::getline(lines, line);) {
    int rank = 0, taken = 0;
    double accuracy = 0;
    if (std::sscanf(line.c_str(), "rank %d steps %d test_accuracy %lf", &rank, &taken, &accuracy) ==
        3) {
      steps[rank] = taken;
      accuracies.insert(accuracy);
    }
  }
  // 1,437 training samples in batches of 32, ten times.
  EXPECT_THAT(steps, ElementsAre(Pair(0, 80), Pair(1, 150), Pair(2, 230))) << result.out;
  ASSERT_EQ(accuracies.size(), 1u) << result.out;
  EXPECT_GT(*accuracies.begin(), 0.9);
}

}  // namespace
}  // namespace distrun
