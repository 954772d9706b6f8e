#include "distrun/testing/throws.h"

#include <cstdlib>
#include <filesystem>
#include <stdexcept>

#include <c10/util/Exception.h>
#include <c10/util/Lazy.h>
#include <gmock/gmock.h>
#include <gtest/gtest-spi.h>
#include <unistd.h>

#include "testsuites/harness/protocol/rank_variables.h"
#include "testsuites/testing/run_rank.h"

namespace distrun {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

void refuse(const std::string& text) { throw std::invalid_argument(text); }

// The verdict on a statement that throws `thrown`; "right" if it passes.
template <class Type, class Thrown>
std::string judge(const Thrown& thrown, const std::string& regex) {
  const auto result =
      internal::throws_with<Type>([&] { throw thrown; }, {"statement", "Type", regex});
  return result ? "right" : result.message();
}

TEST(ThrowsTest, AcceptsTheTypeOrADerivedOne) {
  EXPECT_THROWS_WITH(refuse("x"), std::invalid_argument, "x");
  EXPECT_THROWS_WITH(refuse("x"), std::logic_error, "x");
  EXPECT_THROWS_WITH(refuse("x"), std::exception, "x");
}

TEST(ThrowsTest, SearchesTheExpressionAnywhereInTheText) {
  const std::runtime_error error("invalid root rank: -1");
  EXPECT_EQ(judge<std::exception>(error, "root r.nk"), "right");
  EXPECT_EQ(judge<std::exception>(error, "^invalid.*-\\d$"), "right");
  EXPECT_THAT(judge<std::exception>(error, "^root"),
              HasSubstr("its text does not match: std::runtime_error: invalid root rank: -1"));
}

TEST(ThrowsTest, NamesAnotherTypeWithItsText) {
  EXPECT_THAT(judge<std::logic_error>(std::runtime_error("gone"), "gone"),
              AllOf(HasSubstr("must throw Type matching \"gone\""),
                    HasSubstr("it threw std::runtime_error: gone")));
  EXPECT_THAT(judge<std::exception>(7, ""), HasSubstr("it threw a int"));
}

TEST(ThrowsTest, ReportsThatNothingWasThrown) {
  EXPECT_NONFATAL_FAILURE(EXPECT_THROWS_WITH(static_cast<void>(0), std::exception, ""),
                          "it threw nothing");
}

TEST(ThrowsTest, ExcludesTheCppStackFromTheText) {
  const c10::Error error(
      "message", std::make_shared<c10::PrecomputedLazyValue<std::string>>("deep in the stack"));
  EXPECT_EQ(judge<c10::Error>(error, "message"), "right");
  const auto is_told = AllOf(HasSubstr("does not match"), Not(HasSubstr("deep in")));
  EXPECT_THAT(judge<c10::Error>(error, "deep"), is_told);
  EXPECT_THAT(judge<std::exception>(error, "deep"), is_told);
}

TEST(ThrowsTest, ReportsAnInvalidExpression) {
  EXPECT_THAT(judge<std::exception>(std::runtime_error("x"), "("),
              HasSubstr("invalid regular expression"));
}

TEST(ThrowsTest, MacrosAreStatementsAndAcceptAMessage) {
  EXPECT_NONFATAL_FAILURE(EXPECT_THROWS_WITH(refuse("x"), std::exception, "y") << "step 4",
                          "step 4");
  EXPECT_FATAL_FAILURE(ASSERT_THROWS_WITH(refuse("x"), std::exception, "y"), "refuse(\"x\")");
  const int before = assertions_made();
  EXPECT_THROWS_WITH(refuse("x"), std::exception, "x");
  ASSERT_THROWS_WITH({ refuse("x"); }, std::exception, "x");
  const int made = assertions_made() - before;
  EXPECT_EQ(made, 2);
}

TEST(ThrowsTest, WithinVariantsCheckTheSame) {
  using std::chrono::hours;
  EXPECT_THROWS_WITHIN(refuse("x"), hours(1), std::logic_error, "x");
  EXPECT_FATAL_FAILURE(ASSERT_THROWS_WITHIN(refuse("x"), hours(1), std::exception, "y"), "match");
  EXPECT_NONFATAL_FAILURE(EXPECT_THROWS_WITHIN(refuse("x"), hours(1), c10::Error, "x") << "step 4",
                          "step 4");
  EXPECT_NONFATAL_FAILURE(EXPECT_THROWS_WITHIN(static_cast<void>(0), hours(1), std::exception, ""),
                          "it threw nothing");
}

std::ptrdiff_t threads() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
}

TEST(ThrowsTest, HasNoTimeLimitWhileDebugged) {
  const auto before = threads();
  const auto refuse_with_threads = [&] { refuse(std::to_string(threads() - before)); };
  EXPECT_THROWS_WITHIN(refuse_with_threads(), std::chrono::hours(1), std::exception, "^1$");
  ::setenv(kTestDebuggedVariable, "1", 1);
  EXPECT_THROWS_WITHIN(refuse_with_threads(), std::chrono::hours(1), std::exception, "^0$");
  ::unsetenv(kTestDebuggedVariable);
}

TEST(ThrowsDeathTest, AHangingStatementEndsTheProcess) {
  EXPECT_EXIT(EXPECT_THROWS_WITHIN(::pause(), std::chrono::milliseconds(50), c10::Error, "gone"),
              ::testing::ExitedWithCode(1),
              "throws_test.cc:[0-9]+: ::pause\\(\\) has not returned within 0.05 s");
}

}  // namespace
}  // namespace distrun
