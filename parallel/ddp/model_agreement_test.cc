#include "parallel/ddp/model_agreement.h"

#include <gtest/gtest.h>

namespace distrun::internal {
namespace {

TEST(ModelAgreementTest, NamesTheFirstParameterThatDiffers) {
  const NamedParameters one = {{"a", "[2] Float"}, {"b", "[3] Float"}};
  const NamedParameters other = {{"a", "[2] Float"}, {"b", "[4] Float"}};
  EXPECT_EQ(first_difference({one, other, one}, {0, 1, 2}),
            "parameter 'b' is [3] Float on ranks 0, 2 and [4] Float on rank 1");
}

TEST(ModelAgreementTest, NamesAParameterThatSomeRanksLack) {
  const NamedParameters shorter = {{"a", "[2] Float"}};
  const NamedParameters longer = {{"a", "[2] Float"}, {"b", "[3] Float"}};
  EXPECT_EQ(first_difference({shorter, longer}, {4, 5}),
            "parameter 'b' is missing on rank 4 and [3] Float on rank 5");
}

TEST(ModelAgreementTest, IgnoresNamesOfParameters) {
  EXPECT_EQ(first_difference({{{"a", "[2] Float"}}, {{"b", "[2] Float"}}}, {0, 1}), "");
}

}  // namespace
}  // namespace distrun::internal
