#include "distrun/test_info.h"

#include <gtest/gtest.h>

namespace distrun {
namespace {

TEST(TestIdTest, HasThreeParts) {
  const TestIdParts parts = parts_of("gloo.CommTest.test_bool.odd");
  EXPECT_EQ(parts.suite, "gloo");
  EXPECT_EQ(parts.test_class, "CommTest");
  EXPECT_EQ(parts.name, "test_bool.odd");
}

TEST(TestIdTest, MissingPartsAreEmpty) {
  EXPECT_EQ(parts_of("gloo").suite, "gloo");
  EXPECT_EQ(parts_of("gloo").test_class, "");
  EXPECT_EQ(parts_of("gloo.CommTest").name, "");
}

}  // namespace
}  // namespace distrun
