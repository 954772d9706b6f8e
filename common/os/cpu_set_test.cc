#include "common/os/cpu_set.h"

#include <cerrno>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace distrun {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(CpuSetTest, ReadsTheKernelsLists) {
  EXPECT_THAT(parse_cpu_list("0-2,8\n").value(), ElementsAre(0, 1, 2, 8));
  EXPECT_THAT(parse_cpu_list("7").value(), ElementsAre(7));
  EXPECT_THAT(parse_cpu_list("\n").value(), IsEmpty());
  EXPECT_THAT(parse_cpu_list("0-8191").value(), SizeIs(8192));
}

TEST(CpuSetTest, RejectsOtherTexts) {
  for (const char* text : {"x", "1-", "-1", "2-1", "0,,1", "0-8192", "1-2-3"}) {
    EXPECT_TRUE(parse_cpu_list(text).has_error()) << text;
  }
}

TEST(CpuSetTest, WritesTheKernelsLists) {
  EXPECT_EQ(cpu_list({0, 1, 2, 8}), "0-2,8");
  EXPECT_EQ(cpu_list({3, 5, 6}), "3,5-6");
  EXPECT_EQ(cpu_list({}), "");
}

TEST(CpuSetTest, BindsAThread) {
  const CpuSet before = usable_cpus();
  ASSERT_FALSE(before.empty());
  CpuSet bound;
  std::thread([&] {
    EXPECT_TRUE(CpuMask({*before.rbegin()}).bind_this_thread());
    bound = usable_cpus();
  }).join();
  EXPECT_THAT(bound, ElementsAre(*before.rbegin()));
  EXPECT_EQ(usable_cpus(), before) << "another thread is not bound";
}

TEST(CpuSetTest, NoThreadCanRunOnNoCpu) {
  EXPECT_FALSE(CpuMask({}).bind_this_thread());
  EXPECT_EQ(errno, EINVAL);
}

}  // namespace
}  // namespace distrun
