// Assertions about exceptions.
//
//     EXPECT_THROWS_WITH(group->allreduce(none), std::exception, "requires (a )?non-empty");
//     ASSERT_THROWS_WITH({ work->wait(); }, c10::Error, "^Timed out") << "rank 1 is gone";
//     EXPECT_THROWS_WITHIN(all_reduce(x), std::chrono::seconds(5), c10::Error, "closed by peer");
//
// Holds where the statement throws a Type, or what is derived from it, and the regular expression
// (ECMAScript) is found anywhere in its text, as with Python's assertRaisesRegex: ^ and $ anchor
// it.  Type is std::exception or derived from it.  The text of a c10::Error is its message without
// the C++ stack.
//
// A failure tells the type and text of what was thrown instead.  Each macro counts as one assertion
// and takes << as GoogleTest's own do.
//
// WITHIN is for tests of faults: a peer is gone, and this rank is to report an error in time.
// A statement that has not returned then cannot be abandoned: so the rank ends at once, as one that
// has failed this assertion, and tells where the statement stands.  What follows in the test is not
// run, TearDown() neither, and what << has is not told.  The time is a bound on a time-out that has
// to fire, not a measurement: be generous, and below the test's own time-out.  Time in which the
// process is stopped counts.  Nothing bounds the statement where DISTRUN_TEST_DEBUGGED is set.  A
// process that is no rank of `distrun test` ends with status 1.
#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <string>
#include <type_traits>

#include "distrun/detail/counted_assertions.h"

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

struct TimeBound {
  std::chrono::nanoseconds time;
  const char* file;
  int line;
};

// Calls `statement`, and passes on what it throws.  When the time is over the rank ends.
void call_within(const TimeBound& bound, const ThrowExpectation& expectation,
                 const std::function<void()>& statement);

template <class Type>
::testing::AssertionResult throws_within(const TimeBound& bound,
                                         const std::function<void()>& statement,
                                         const ThrowExpectation& expectation) {
  return throws_with<Type>([&] { call_within(bound, expectation, statement); }, expectation);
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

#define DISTRUN_THROWS_WITHIN_(statement, time, Type, regex, fail)                                \
  GTEST_ASSERT_((::distrun::internal::throws_within<Type>(                                        \
                    {time, __FILE__, __LINE__}, [&] { statement; }, {#statement, #Type, regex})), \
                fail)

// (statement, time, Type, regex): the time is a std::chrono duration.
#define EXPECT_THROWS_WITHIN(statement, time, Type, regex) \
  DISTRUN_THROWS_WITHIN_(statement, time, Type, regex, GTEST_NONFATAL_FAILURE_)
#define ASSERT_THROWS_WITHIN(statement, time, Type, regex) \
  DISTRUN_THROWS_WITHIN_(statement, time, Type, regex, GTEST_FATAL_FAILURE_)
