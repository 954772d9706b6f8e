#include "launcher/plan/worker_count.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/os/cpu_set.h"

namespace distrun {
namespace {

using ::testing::HasSubstr;

constexpr Machine kGpus{.cpus = 64, .gpus = 8};
constexpr Machine kNoGpus{.cpus = 64, .gpus = 0};

TEST(WorkerCountTest, ParsesNumbers) {
  EXPECT_EQ(parse_worker_count("3", kGpus).value(), 3);
  for (const auto* text : {"0", "-1", "3.5", "two", "", "99999999"}) {
    EXPECT_TRUE(parse_worker_count(text, kGpus).has_error()) << text;
  }
}

TEST(WorkerCountTest, CountsDevices) {
  EXPECT_EQ(parse_worker_count("cpu", kGpus).value(), 64);
  EXPECT_EQ(parse_worker_count("gpu", kGpus).value(), 8);
  EXPECT_EQ(parse_worker_count("auto", kGpus).value(), 8);
  EXPECT_EQ(parse_worker_count("auto", kNoGpus).value(), 64);
}

TEST(WorkerCountTest, ErrorsSayWhatToDo) {
  EXPECT_THAT(parse_worker_count("gpu", kNoGpus).error().message, HasSubstr("no GPU"));
  EXPECT_THAT(parse_worker_count("xpu", kGpus).error().message, HasSubstr("give a number"));
  EXPECT_THAT(parse_worker_count("tpu", kGpus).error().message,
              HasSubstr("neither a number nor 'cpu', 'gpu' or 'auto'"));
}

TEST(WorkerCountTest, ReadsVisibleDevicesLikeCuda) {
  EXPECT_EQ(visible_gpus(4, std::nullopt), 4);
  EXPECT_EQ(visible_gpus(4, "2, 0"), 2);
  EXPECT_EQ(visible_gpus(4, ""), 0);
  EXPECT_EQ(visible_gpus(4, "-1"), 0);
  EXPECT_EQ(visible_gpus(4, "1,7,0"), 1) << "7 is not there: what follows is not seen";
  EXPECT_EQ(visible_gpus(4, "1,1"), 0);
  EXPECT_EQ(visible_gpus(4, "GPU-8932f937,GPU-14aa32a4"), 2);
  EXPECT_EQ(visible_gpus(0, "0"), 0);
}

TEST(WorkerCountTest, CountsTheCpusThatThisProcessMayUse) {
  EXPECT_EQ(this_machine({}).cpus, static_cast<int>(usable_cpus().size()));
}

}  // namespace
}  // namespace distrun
