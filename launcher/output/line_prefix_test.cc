#include "launcher/output/line_prefix.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace distrun {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

const PrefixValues kValues = {
    .role_name = "trainer", .rank = 13, .local_rank = 5, .host = "node7", .stream = "stderr"};

std::string text_of(const std::string& of) {
  return PrefixTemplate::parse(of).value().text(kValues, "12:30:01.250");
}

std::string error_of(const std::string& of) { return PrefixTemplate::parse(of).error().message; }

TEST(PrefixTemplateTest, ReplacesEveryName) {
  EXPECT_EQ(text_of("${role_name} ${rank} ${local_rank}"), "trainer 13 5");
  EXPECT_EQ(text_of("${host}|${stream}|${time}"), "node7|stderr|12:30:01.250");
}

TEST(PrefixTemplateTest, FollowsPythonsTemplateSyntax) {
  EXPECT_EQ(text_of("[$rank]$local_rank:"), "[13]5:");
  EXPECT_EQ(text_of("$$rank $$$rank"), "$rank $13");
  EXPECT_EQ(text_of("5$ $5 $"), "5$ $5 $");
  EXPECT_EQ(text_of("${rank}s"), "13s");
}

TEST(PrefixTemplateTest, TorchrunsPrefixHasNoSpace) {
  EXPECT_EQ(PrefixTemplate::torchruns().text(kValues, ""), "[trainer5]:");
}

TEST(PrefixTemplateTest, RejectsUnknownNamesAndListsKnownOnes) {
  for (const std::string wrong : {"${rnak}", "$rnak", "x ${rank} $rnak"}) {
    EXPECT_THAT(error_of(wrong), AllOf(StartsWith("unknown variable ${rnak}; use ${role_name}"),
                                       HasSubstr(" ${time}")));
  }
  EXPECT_THAT(error_of("$ranks"), StartsWith("unknown variable ${ranks}; use ${role_name}"));
}

TEST(PrefixTemplateTest, RejectsBracesWithoutNameOrEnd) {
  for (const std::string wrong : {"${", "${}", "${rank", "${ra nk}", "${5}"}) {
    EXPECT_THAT(error_of(wrong), StartsWith("'${' needs a name and a '}'; use")) << wrong;
  }
}

TEST(PrefixTemplateTest, ReportsWhetherItNeedsTheTime) {
  EXPECT_TRUE(PrefixTemplate::parse("$time ")->shows_time());
  EXPECT_FALSE(PrefixTemplate::torchruns().shows_time());
  EXPECT_TRUE(PrefixTemplate::parse("")->is_empty());
}

TEST(ColouredTest, WorkersHaveStableDistinctColours) {
  std::set<std::string> colours;
  for (int rank = 0; rank < 8; ++rank) {
    const std::string text = coloured("[x]", LocalRank(rank));
    EXPECT_EQ(text, coloured("[x]", LocalRank(rank)));
    EXPECT_THAT(text, AllOf(StartsWith("\x1b["), ::testing::EndsWith("m[x]\x1b[0m")));
    colours.insert(text);
  }
  EXPECT_EQ(colours.size(), 8u);
  EXPECT_EQ(coloured("", LocalRank(0)), "");
}

}  // namespace
}  // namespace distrun
