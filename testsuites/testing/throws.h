// Assertions about exceptions.
//
//     EXPECT_THROWS_WITH(group->allreduce(none), std::exception, "requires (a )?non-empty");
//     ASSERT_THROWS_WITH({ work->wait(); }, c10::Error, "^Timed out") << "rank 1 is gone";
//
// Holds where the statement throws a Type, or what is derived from it, and the regular expression
// (ECMAScript) is found anywhere in its text, as with Python's assertRaisesRegex: ^ and $ anchor
// it.  Type is std::exception or derived from it.  The text of a c10::Error is its message without
// the C++ stack.
//
// A failure tells the type and text of what was thrown instead.  Each macro counts as one assertion
// and takes << as GoogleTest's own do.
#pragma once

#include <exception>
#include <string>
#include <type_traits>

#include "testsuites/testing/counted_assertions.h"

namespace distrun::internal {

struct ThrowExpectation {
  const char* statement;
  const char* type;
  std::string regex;
};

::testing::AssertionResult judge_thrown(const ThrowExpectation& expectation,
                                        const std::exception& thrown);
// Is called in the handler of what was thrown.
::testing::AssertionResult judge_other(const ThrowExpectation& expectation);
::testing::AssertionResult judge_nothing(const ThrowExpectation& expectation);

template <class Type, class Statement>
::testing::AssertionResult throws_with(const Statement& statement,
                                       const ThrowExpectation& expectation) {
  static_assert(std::is_base_of_v<std::exception, Type>, "only exceptions with a text are judged");
  try {
    statement();
  } catch (const Type& thrown) {
    return judge_thrown(expectation, thrown);
  } catch (...) {
    return judge_other(expectation);
  }
  return judge_nothing(expectation);
}

}  // namespace distrun::internal

#define DISTRUN_THROWS_WITH_(statement, Type, regex, fail)                                      \
  GTEST_ASSERT_(                                                                                \
      (::distrun::internal::throws_with<Type>([&] { statement; }, {#statement, #Type, regex})), \
      fail)

#define EXPECT_THROWS_WITH(statement, Type, regex) \
  DISTRUN_THROWS_WITH_(statement, Type, regex, GTEST_NONFATAL_FAILURE_)
#define ASSERT_THROWS_WITH(statement, Type, regex) \
  DISTRUN_THROWS_WITH_(statement, Type, regex, GTEST_FATAL_FAILURE_)
