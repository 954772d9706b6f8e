// The example that estimates the traffic of a training step.
#include <cstdint>
#include <sstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/test/run_program.h"

namespace distrun {
namespace {

using ::testing::HasSubstr;
using testing::ProgramResult;
using testing::run_program;

ProgramResult dry_run(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), DRY_RUN);
  return run_program(arguments, {});
}

struct Row {
  std::int64_t calls = 0, payload = 0, sent = 0;
  double seconds = 0;
};

// The row of that operation; zeros if there is none.
Row row_of(const std::string& text, const std::string& operation) {
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    std::istringstream words(line);
    std::string first;
    Row row;
    words >> first >> row.calls >> row.payload >> row.sent >> row.seconds;
    if (first == operation) return row;
  }
  return {};
}

// For two layers of width² + width parameters and one of 10 · width + 10.
constexpr std::int64_t gradient_bytes(std::int64_t width) {
  return 4 * (2 * (width * width + width) + 10 * width + 10);
}

// One bucket: each of the ring's two phases sends all but a 1,024th, rounded down.
TEST(DryRunTest, GradientsPassTwiceThroughTheRing) {
  const auto result = dry_run({"--width", "256", "--bandwidth", "10"});
  ASSERT_EQ(result.end, ProcessEnd(ExitedWith{0})) << result.err;
  EXPECT_THAT(result.out, HasSubstr("rank 0 of 1024: one step of 134154 parameters\n"));
  constexpr std::int64_t kBytes = gradient_bytes(256);
  static_assert(kBytes == 4 * 134154);
  const Row gradients = row_of(result.out, "all_reduce");
  EXPECT_EQ(gradients.calls, 1);
  EXPECT_EQ(gradients.payload, kBytes);
  EXPECT_EQ(gradients.sent, 2 * (kBytes - kBytes / 1024));
  EXPECT_NEAR(gradients.seconds, 2.0 * kBytes * 1023 / 1024 / 10e9, 1e-6);
}

// The figures in the example's comment.
TEST(DryRunTest, DefaultNetFillsTwoBuckets) {
  const auto result = dry_run({});
  ASSERT_EQ(result.end, ProcessEnd(ExitedWith{0})) << result.err;
  EXPECT_EQ(row_of(result.out, "all_reduce").calls, 2);
  EXPECT_EQ(row_of(result.out, "all_reduce").sent, 16'859'120);
  EXPECT_EQ(row_of(result.out, "all_gather_into_tensor").calls, 1);
  EXPECT_EQ(row_of(result.out, "total").calls, 3);
  EXPECT_EQ(row_of(result.out, "total").sent, 16'867'304);
}

TEST(DryRunTest, GathersMetricsAndAddsUpTheTraffic) {
  const auto result = dry_run({"--width", "256"});
  const Row metrics = row_of(result.out, "all_gather_into_tensor");
  EXPECT_EQ(metrics.payload, 8);
  EXPECT_EQ(metrics.sent, 8 * 1023);
  const Row total = row_of(result.out, "total"), gradients = row_of(result.out, "all_reduce");
  EXPECT_EQ(total.calls, gradients.calls + metrics.calls) << result.out;
  EXPECT_EQ(total.payload, gradients.payload + metrics.payload);
  EXPECT_EQ(total.sent, gradients.sent + metrics.sent);
}

// Larger than one bucket of 25 MiB.
TEST(DryRunTest, ReducesALargeNetInBuckets) {
  const auto result = dry_run({"--width", "2048", "--batch", "1", "--rank", "7"});
  ASSERT_EQ(result.end, ProcessEnd(ExitedWith{0})) << result.err;
  EXPECT_THAT(result.out, HasSubstr("rank 7 of 1024"));
  const Row gradients = row_of(result.out, "all_reduce");
  EXPECT_GT(gradients.calls, 1);
  EXPECT_EQ(gradients.payload, gradient_bytes(2048));
}

TEST(DryRunTest, OneRankSendsNothing) {
  const auto result = dry_run({"--width", "256", "--world-size", "1"});
  ASSERT_EQ(result.end, ProcessEnd(ExitedWith{0})) << result.err;
  EXPECT_EQ(row_of(result.out, "all_reduce").payload, gradient_bytes(256));
  EXPECT_EQ(row_of(result.out, "total").sent, 0);
}

TEST(DryRunTest, RejectsAnUnknownRank) {
  const auto result = dry_run({"--world-size", "4", "--rank", "4"});
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{1}));
  EXPECT_THAT(result.err, HasSubstr("dry_run: rendezvous: the rank is 4; expected 0 to 3"));
  EXPECT_THAT(dry_run({"--bandwidth", "0"}).err, HasSubstr("--bandwidth"));
}

}  // namespace
}  // namespace distrun
