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

struct UnevenTraining {
  std::map<int, int> steps;  // Of each rank.
  std::set<double> accuracies;
};

UnevenTraining train_uneven_on(const std::string& ranks) {
  const ProgramResult result =
      run_program({DISTRUN_PROGRAM, "launch", "--timeout", "100", "--nproc-per-node", ranks,
                   TRAIN_UNEVEN, EXAMPLES_DIR "/data/digits.csv"});
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{0})) << result.out << result.err;
  UnevenTraining training;
  std::istringstream lines(result.out);
  for (std::string line; std::getline(lines, line);) {
    int rank = 0, taken = 0;
    double accuracy = 0;
    if (std::sscanf(line.c_str(), "rank %d steps %d test_accuracy %lf", &rank, &taken, &accuracy) ==
        3) {
      training.steps[rank] = taken;
      training.accuracies.insert(accuracy);
    }
  }
  return training;
}

TEST(TrainUnevenTest, RanksWithOneTwoAndThreePartsOfTheDataTrainAModelAsGoodAsThatOfOneRank) {
  const UnevenTraining three = train_uneven_on("3"), one = train_uneven_on("1");
  // 1,437 training samples in batches of 32, 35 times.
  EXPECT_THAT(three.steps, ElementsAre(Pair(0, 280), Pair(1, 525), Pair(2, 805)));
  EXPECT_THAT(one.steps, ElementsAre(Pair(0, 1575)));
  ASSERT_EQ(three.accuracies.size(), 1u);
  ASSERT_EQ(one.accuracies.size(), 1u);
  EXPECT_GT(*one.accuracies.begin(), 0.95);
  // Of 360 test samples, both classify 347 correctly here; other CPUs round differently.
  EXPECT_NEAR(*three.accuracies.begin(), *one.accuracies.begin(), 0.01);
}

}  // namespace
}  // namespace distrun
