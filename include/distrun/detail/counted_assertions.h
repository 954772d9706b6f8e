// Includes <gtest/gtest.h>, and counts the assertions that a test runs.
#pragma once

#include <gtest/gtest.h>

namespace distrun::internal {
int count_assertion();  // Returns 0.
}

// Every assertion macro of GoogleTest starts with this macro.  This definition also counts the
// assertion.
#undef GTEST_AMBIGUOUS_ELSE_BLOCKER_
#define GTEST_AMBIGUOUS_ELSE_BLOCKER_             \
  switch (::distrun::internal::count_assertion()) \
  case 0:                                         \
  default:
