#include "backends/gloo/call_facts.h"

#include <gtest/gtest.h>

namespace distrun::internal {
namespace {

CallFacts call(const std::string& collective, const std::string& op) {
  return {{"collective", collective}, {"reduce op", op}, {"dtype", "Float"}};
}

TEST(CallFactsTest, NamesEveryValueAndItsRanks) {
  EXPECT_EQ(disagreement(
                {call("all_reduce", "SUM"), call("all_reduce", "MAX"), call("all_reduce", "SUM")},
                {0, 1, 4}),
            "the reduce op is SUM on ranks 0, 4 and MAX on rank 1");
}

TEST(CallFactsTest, ReportsOnlyTheNameIfRanksCallDifferentCollectives) {
  EXPECT_EQ(disagreement({call("reduce", "SUM"), call("all_reduce", "MAX")}, {0, 1}),
            "the collective is reduce on rank 0 and all_reduce on rank 1");
}

TEST(CallFactsTest, ReportsAFactThatOneRankLacks) {
  const CallFacts with_tag = {{"collective", "send"}, {"tag", "1"}},
                  without = {{"collective", "send"}};
  EXPECT_EQ(disagreement(std::vector{with_tag, without}, {0, 1}),
            "the tag is 1 on rank 0 and none on rank 1");
}

TEST(CallFactsTest, IsSilentIfRanksAgree) {
  EXPECT_EQ(disagreement({call("all_reduce", "SUM"), call("all_reduce", "SUM")}, {0, 1}), "");
}

TEST(CallFactsTest, TextKeepsEveryFact) {
  const CallFacts facts = call("all_reduce", "SUM");
  EXPECT_EQ(to_text(to_facts(to_text(facts))), to_text(facts));
  EXPECT_EQ(to_facts(to_text(facts)).at(1).value, "SUM");
}

TEST(CallFactsTest, FingerprintsDifferForDifferentTexts) {
  EXPECT_EQ(fingerprint("SUM"), fingerprint("SUM"));
  EXPECT_NE(fingerprint("SUM"), fingerprint("MAX"));
}

TEST(ExchangeTest, NamesBothRanksAndBothSizes) {
  const Exchange first{.sent = {1, 3}, .expected = {1, 4}};
  const Exchange second{.sent = {4, 2}, .expected = {3, 2}};
  Exchange other = second;
  other.expected[0] = 5;
  EXPECT_EQ(disagreement(std::vector{first, second}, {2, 7}), "");
  EXPECT_EQ(disagreement(std::vector{first, other}, {2, 7}),
            "rank 2 sends 3 numbers to rank 7, which expects 5");
}

}  // namespace
}  // namespace distrun::internal
