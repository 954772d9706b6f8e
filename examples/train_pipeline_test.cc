// The example of a pipeline under `distrun launch`.
#include <cstdio>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/test/run_program.h"

namespace distrun {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAreArray;
using testing::ProgramResult;
using testing::run_program;
using ::testing::SizeIs;

struct PipelineTraining {
  std::vector<double> losses;  // By epoch.
  double accuracy = 0;
  std::vector<int> elements;  // Of all ranks.
};

PipelineTraining train_stages(int ranks) {
  const ProgramResult result =
      run_program({DISTRUN_PROGRAM, "launch", "--timeout", "100", "--nproc-per-node",
                   std::to_string(ranks), TRAIN_PIPELINE, EXAMPLES_DIR "/data/digits.csv"});
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{0})) << result.out << result.err;
  PipelineTraining training;
  std::istringstream lines(result.out);
  for (std::string line; std::getline(lines, line);) {
    int number = 0, elements = 0;
    double value = 0;
    if (std::sscanf(line.c_str(), "epoch %d loss %lf", &number, &value) == 2) {
      training.losses.push_back(value);
    } else if (std::sscanf(line.c_str(), "test_accuracy %lf", &value) == 1) {
      training.accuracy = value;
    } else if (std::sscanf(line.c_str(), "rank %d has %d parameters", &number, &elements) == 2) {
      training.elements.push_back(elements);
    }
  }
  return training;
}

TEST(TrainPipelineTest, ThreeRanksTrainAsOneWithPartOfTheLayersEach) {
  const PipelineTraining alone = train_stages(1), stages = train_stages(3);
  ASSERT_THAT(alone.losses, SizeIs(10));
  EXPECT_GT(alone.accuracy, 0.87);
  std::vector<::testing::Matcher<double>> as_alone;
  for (const double loss : alone.losses) as_alone.emplace_back(DoubleNear(loss, 0.002));
  EXPECT_THAT(stages.losses, ElementsAreArray(as_alone));
  EXPECT_NEAR(stages.accuracy, alone.accuracy, 0.01);
  ASSERT_THAT(alone.elements, SizeIs(1));
  ASSERT_THAT(stages.elements, SizeIs(3));
  for (const int elements : stages.elements) EXPECT_LT(elements, 0.45 * alone.elements[0]);
}

}  // namespace
}  // namespace distrun
