// The example and its Python twin under `distrun launch`: alone, and as ranks of one run.
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/test/run_program.h"

namespace distrun {
namespace {

using testing::ProgramOptions;
using testing::ProgramResult;
using testing::run_program;
using ::testing::UnorderedElementsAre;

constexpr const char* kCpp = TRAIN_DIGITS;
constexpr const char* kPython = EXAMPLES_DIR "/train_digits.py";
constexpr const char* kData = EXAMPLES_DIR "/data/digits.csv";

// The lines that start with `prefix`, in order.
std::vector<std::string> with_prefix(const std::string& text, const std::string& prefix) {
  std::vector<std::string> found;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    if (line.starts_with(prefix)) found.push_back(line);
  }
  return found;
}

ProgramResult launch(const std::vector<std::string>& program, const std::string& store = "tcp") {
  ProgramOptions options;
  options.environment.set("PYTHON_EXEC", TORCH_PYTHON);
  std::vector<std::string> arguments = {DISTRUN_PROGRAM, "launch", "--nproc-per-node", "2",
                                        "--store",       store};
  arguments.insert(arguments.end(), program.begin(), program.end());
  return run_program(arguments, options);
}

// Expects ten epochs with falling loss, and equal accuracy on both ranks.
void expect_trained(const ProgramResult& result) {
  ASSERT_EQ(result.end, ProcessEnd(ExitedWith{0})) << result.out << result.err;
  const auto epochs = with_prefix(result.out, "epoch ");
  ASSERT_EQ(epochs.size(), 10u) << result.out;
  const auto loss = [](const std::string& line) { return std::stod(line.substr(line.rfind(' '))); };
  EXPECT_LT(loss(epochs.back()), loss(epochs.front()) / 10);
  const auto ranks = with_prefix(result.out, "rank ");
  ASSERT_EQ(ranks.size(), 2u) << result.out;
  const std::string accuracy = ranks[0].substr(ranks[0].rfind(' ') + 1);
  EXPECT_GT(std::stod(accuracy), 0.93);
  EXPECT_THAT(ranks, UnorderedElementsAre("rank 0 test_accuracy " + accuracy,
                                          "rank 1 test_accuracy " + accuracy));
}

bool python_is_missing() { return std::string(TORCH_PYTHON).empty(); }
constexpr const char* kNoPython = "no Python with torch: configure with DISTRUN_TORCH_PYTHON";

TEST(TrainDigitsTest, TrainsInCpp) { expect_trained(launch({kCpp, kData})); }

TEST(TrainDigitsTest, TrainsInPython) {
  if (python_is_missing()) GTEST_SKIP() << kNoPython;
  expect_trained(launch({kPython, kData}));
}

// One rank runs the C++ program and the other the Python one, in one Gloo group.
ProgramResult launch_mixed(const std::string& cpp_rank, const std::string& store) {
  const std::string script =
      "if [ $RANK = " + cpp_rank +
      " ]; then exec \"$0\" \"$2\"; else exec \"$PYTHON_EXEC\" \"$1\" \"$2\"; fi";
  return launch({"sh", "-c", script, kCpp, kPython, kData}, store);
}

TEST(TrainDigitsTest, CppAndPythonRanksTrainTogether) {
  if (python_is_missing()) GTEST_SKIP() << kNoPython;
  for (const char* cpp_rank : {"0", "1"}) expect_trained(launch_mixed(cpp_rank, "tcp"));
}

TEST(TrainDigitsTest, CppAndPythonRanksMeetInAFile) {
  if (python_is_missing()) GTEST_SKIP() << kNoPython;
  std::string folder = ::testing::TempDir() + "train digits.XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  for (const char* cpp_rank : {"0", "1"}) {
    expect_trained(launch_mixed(cpp_rank, "file:" + folder + "/meet 100%"));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  std::filesystem::remove(folder);
}

TEST(TrainDigitsTest, NamesAMissingFile) {
  const auto result = launch({kCpp, "/no/such/file.csv"});
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{1}));
  EXPECT_THAT(result.err,
              ::testing::HasSubstr("std::runtime_error: cannot open /no/such/file.csv"));
}

}  // namespace
}  // namespace distrun
