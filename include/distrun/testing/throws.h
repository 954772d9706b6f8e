// EXPECT_THROWS_WITH, EXPECT_THROWS_WITHIN and their ASSERT_ forms check which exception a
// statement throws.
//
//     EXPECT_THROWS_WITH(group->allreduce(none), std::exception, "requires (a )?non-empty");
//     ASSERT_THROWS_WITH({ work->wait(); }, c10::Error, "^Timed out") << "rank 1 is gone";
//     EXPECT_THROWS_WITHIN(all_reduce(x), std::chrono::seconds(5), c10::Error, "closed by peer");
//
// An assertion passes if the statement throws an exception of class Type, and the regular
// expression (ECMAScript) matches a part of the exception's text, as in Python's assertRaisesRegex.
// Type is std::exception or a class derived from it.  The text of a c10::Error is its message
// without the C++ stack.  The message of a failure shows the type and the text of the exception
// that was thrown.  Each macro counts as one assertion.  You can append a text with <<, as with
// GoogleTest's macros.
//
// The WITHIN macros are for tests in which this rank must report an error within a time.  If the
// statement does not return in time, the rank exits at once with a failed assertion, and a stack
// trace shows the statement that hangs.  The rest of the test, TearDown() and the text after << are
// skipped.  Choose a generous time that is shorter than the timeout of the test.  The time also
// counts while the process is stopped.  If the environment variable DISTRUN_TEST_DEBUGGED is set,
// there is no time limit.  If the process is not a rank of `distrun test` and the time runs out,
// the process prints the message and exits with status 1.
//
// Cost: each WITHIN assertion starts a thread.  This thread ends when the assertion ends.
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
// Called in the handler of the exception.
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

// Calls `statement` and lets its exceptions pass.  Ends the rank when the time is over.
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

// The arguments are (statement, Type, regex).  Checks that the statement throws a Type whose text
// matches the regex.
#define EXPECT_THROWS_WITH(statement, Type, regex) \
  DISTRUN_THROWS_WITH_(statement, Type, regex, GTEST_NONFATAL_FAILURE_)
// Does the same and returns from the function at a failure.
#define ASSERT_THROWS_WITH(statement, Type, regex) \
  DISTRUN_THROWS_WITH_(statement, Type, regex, GTEST_FATAL_FAILURE_)

#define DISTRUN_THROWS_WITHIN_(statement, time, Type, regex, fail)                                \
  GTEST_ASSERT_((::distrun::internal::throws_within<Type>(                                        \
                    {time, __FILE__, __LINE__}, [&] { statement; }, {#statement, #Type, regex})), \
                fail)

// The arguments are (statement, time, Type, regex).  Checks the same, and that the statement throws
// within `time`, a std::chrono duration.
#define EXPECT_THROWS_WITHIN(statement, time, Type, regex) \
  DISTRUN_THROWS_WITHIN_(statement, time, Type, regex, GTEST_NONFATAL_FAILURE_)
// Does the same and returns from the function at a failure.
#define ASSERT_THROWS_WITHIN(statement, time, Type, regex) \
  DISTRUN_THROWS_WITHIN_(statement, time, Type, regex, GTEST_FATAL_FAILURE_)
