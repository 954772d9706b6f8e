#include "common/text/edits.h"

#include <gtest/gtest.h>

namespace distrun {
namespace {

TEST(EditsTest, CountsInsertionsDeletionsAndReplacements) {
  EXPECT_EQ(edits("", ""), 0U);
  EXPECT_EQ(edits("gloo", "gloo"), 0U);
  EXPECT_EQ(edits("glo", "gloo"), 1U);
  EXPECT_EQ(edits("gloo", "glo"), 1U);
  EXPECT_EQ(edits("glow", "gloo"), 1U);
  EXPECT_EQ(edits("restrats", "restarts"), 2U);
  EXPECT_EQ(edits("", "abc"), 3U);
  EXPECT_EQ(edits("abc", ""), 3U);
}

}  // namespace
}  // namespace distrun
