// The example of divided parameters and layers under `distrun launch`.
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/test/run_program.h"

namespace distrun {
namespace {

using ::testing::DoubleNear;
using ::testing::Each;
using ::testing::ElementsAreArray;
using testing::ProgramResult;
using testing::run_program;
using ::testing::SizeIs;

struct Training {
  std::vector<double> losses;      // By epoch.
  std::vector<double> accuracies;  // Of all ranks.
  std::vector<int> elements;       // Of all ranks' shards.
};

Training train(int ranks, const std::string& tensor_parallel) {
  const ProgramResult result = run_program(
      {DISTRUN_PROGRAM, "launch", "--timeout", "100", "--nproc-per-node", std::to_string(ranks),
       TRAIN_SHARDED, EXAMPLES_DIR "/data/digits.csv", tensor_parallel});
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{0})) << result.out << result.err;
  Training training;
  std::istringstream lines(result.out);
  for (std::string line; std::getline(lines, line);) {
    int number = 0, elements = 0;
    double value = 0;
    if (std::sscanf(line.c_str(), "epoch %d loss %lf", &number, &value) == 2) {
      training.losses.push_back(value);
    } else if (std::sscanf(line.c_str(), "rank %d test_accuracy %lf with %d", &number, &value,
                           &elements) == 3) {
      training.accuracies.push_back(value);
      training.elements.push_back(elements);
    }
  }
  return training;
}

TEST(TrainShardedTest, FourRanksTrainAsOneWithAShareOfTheParameters) {
  const Training alone = train(1, "1"), sharded = train(4, "1"), in_two_dimensions = train(4, "2");
  ASSERT_THAT(alone.losses, SizeIs(10));
  ASSERT_THAT(alone.accuracies, SizeIs(1));
  EXPECT_GT(alone.accuracies[0], 0.9);
  std::vector<::testing::Matcher<double>> as_alone;
  for (const double loss : alone.losses) as_alone.emplace_back(DoubleNear(loss, 0.002));
  for (const Training& one : {sharded, in_two_dimensions}) {
    EXPECT_THAT(one.losses, ElementsAreArray(as_alone));
    EXPECT_THAT(one.accuracies, SizeIs(4));
    EXPECT_THAT(one.accuracies, Each(DoubleNear(alone.accuracies[0], 0.01)));
    for (const int elements : one.elements) EXPECT_LT(elements, 0.3 * alone.elements[0]);
  }
}

}  // namespace
}  // namespace distrun
