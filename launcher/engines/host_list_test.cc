#include "launcher/engines/host_list.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace distrun {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> hosts(std::string_view text) { return expand_host_list(text).value(); }

TEST(HostListTest, NamesWithoutBracketsAreHosts) {
  EXPECT_THAT(hosts("gpu7"), ElementsAre("gpu7"));
  EXPECT_THAT(hosts("gpu7,login-1,a.b.example"), ElementsAre("gpu7", "login-1", "a.b.example"));
}

TEST(HostListTest, BracketsContainNumbersAndRanges) {
  EXPECT_THAT(hosts("n[0-3]"), ElementsAre("n0", "n1", "n2", "n3"));
  EXPECT_THAT(hosts("n[5-6,12],m1"), ElementsAre("n5", "n6", "n12", "m1"));
  EXPECT_THAT(hosts("gpu[7]-ib"), ElementsAre("gpu7-ib"));
}

TEST(HostListTest, NumbersKeepTheDigitsOfTheFirstOne) {
  EXPECT_THAT(hosts("gpu[001-003,7]"), ElementsAre("gpu001", "gpu002", "gpu003", "gpu7"));
  EXPECT_THAT(hosts("n[08-11]"), ElementsAre("n08", "n09", "n10", "n11"));
  EXPECT_THAT(hosts("n[9-10]"), ElementsAre("n9", "n10"));
}

TEST(HostListTest, SeveralBracketsAreCombined) {
  EXPECT_THAT(hosts("r[0-1]n[1-2]"), ElementsAre("r0n1", "r0n2", "r1n1", "r1n2"));
}

TEST(HostListTest, OtherTextsAreErrors) {
  for (const char* text :
       {"", ",", "a,", "[", "n[", "n]", "n[]", "n[1-]", "n[-2]", "n[2-1]", "n[a]", "n[[1]]", "n[1",
        "n[0-99999999999999999999]", "n[0-70000]", "r[0-999]n[0-999]"}) {
    const auto result = expand_host_list(text);
    ASSERT_FALSE(result) << text;
    EXPECT_EQ(result.error().message, "'" + std::string(text) + "' is not a list of hosts");
  }
}

TEST(HostListTest, TaskCountsMayBeRepeated) {
  EXPECT_THAT(expand_task_counts("2(x3),1").value(), ElementsAre(2, 2, 2, 1));
  EXPECT_THAT(expand_task_counts("8").value(), ElementsAre(8));
  for (const char* text : {"", "0", "2(x", "2(x0)", "2(x3", "2(3)", "a", "1,,1", "1(x65537)"}) {
    const auto result = expand_task_counts(text);
    ASSERT_FALSE(result) << text;
    EXPECT_EQ(result.error().message,
              "'" + std::string(text) + "' is not a list of numbers of tasks");
  }
}

}  // namespace
}  // namespace distrun
