#include "common/text/edit_distance.h"

#include <gtest/gtest.h>

namespace distrun {
namespace {

TEST(EditDistanceTest, CountsInsertionsDeletionsAndReplacements) {
  EXPECT_EQ(edit_distance("", ""), 0U);
  EXPECT_EQ(edit_distance("gloo", "gloo"), 0U);
  EXPECT_EQ(edit_distance("glo", "gloo"), 1U);
  EXPECT_EQ(edit_distance("gloo", "glo"), 1U);
  EXPECT_EQ(edit_distance("glow", "gloo"), 1U);
  EXPECT_EQ(edit_distance("restrats", "restarts"), 2U);
  EXPECT_EQ(edit_distance("", "abc"), 3U);
  EXPECT_EQ(edit_distance("abc", ""), 3U);
}

}  // namespace
}  // namespace distrun
