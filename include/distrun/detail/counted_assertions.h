// <gtest/gtest.h>, whose assertions are counted.
#pragma once

#include <gtest/gtest.h>

namespace distrun::internal {
int count_assertion();  // Returns 0.
}

// Every macro that asserts something begins with this one.
#undef GTEST_AMBIGUOUS_ELSE_BLOCKER_
#define GTEST_AMBIGUOUS_ELSE_BLOCKER_             \
  switch (::distrun::internal::count_assertion()) \
  case 0:                                         \
  default:
