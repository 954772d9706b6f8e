#include "testsuites/harness/select/name_expression.h"

#include <gtest/gtest.h>

namespace distrun {
namespace {

bool matches(std::string_view expression, std::string_view id) {
  return NameExpression::parse(expression).value().matches(id);
}

std::string expression_problem(std::string_view expression) {
  const auto parsed = NameExpression::parse(expression);
  return parsed ? "none" : parsed.error().message;
}

TEST(NameExpressionTest, AWordMatchesAnyIdThatContainsIt) {
  EXPECT_TRUE(matches("allreduce", "gloo.T.test_allreduce_basics"));
  EXPECT_TRUE(matches("T.test_all", "gloo.T.test_allreduce_basics"));
  EXPECT_FALSE(matches("gather", "gloo.T.test_allreduce_basics"));
}

TEST(NameExpressionTest, IgnoresCase) {
  EXPECT_TRUE(matches("PROCESSGROUP", "gloo.ProcessGroupGlooTest.x"));
  EXPECT_TRUE(matches("processgroup", "gloo.ProcessGroupGlooTest.x"));
}

TEST(NameExpressionTest, NotBindsTighterThanAndWhichBindsTighterThanOr) {
  EXPECT_TRUE(matches("a or b and c", "a"));
  EXPECT_FALSE(matches("(a or b) and c", "a"));
  EXPECT_TRUE(matches("b and c or a", "a"));
  EXPECT_FALSE(matches("not a and b", "xb a"));
  EXPECT_TRUE(matches("not a or b", "x"));
  EXPECT_TRUE(matches("not a or b", "ab"));
  EXPECT_FALSE(matches("not (a or b)", "b"));
  EXPECT_TRUE(matches("not not a", "a"));
  EXPECT_TRUE(matches("a and b and not c", "ab"));
  EXPECT_FALSE(matches("a and b and not c", "abc"));
  EXPECT_TRUE(matches("x or y or a", "a"));
}

TEST(NameExpressionTest, ParenthesesNeedNoSpaces) {
  EXPECT_TRUE(matches("  not(a)and(b or c)\t", "c"));
  EXPECT_FALSE(matches("not(a)and(b or c)", "ac"));
}

TEST(NameExpressionTest, OperatorsAreWholeLowerCaseWords) {
  EXPECT_TRUE(matches("android", "android"));
  EXPECT_TRUE(matches("nothing or origin", "origin"));
  EXPECT_EQ(expression_problem("a AND b"),
            "-k 'a AND b': at 3, 'AND': expected 'and', 'or' or the end");
}

TEST(NameExpressionTest, ErrorsNameTheColumn) {
  EXPECT_EQ(expression_problem("a and"),
            "-k 'a and': at 6, the end: expected a word, 'not' or '('");
  EXPECT_EQ(expression_problem("or a"), "-k 'or a': at 1, 'or': expected a word, 'not' or '('");
  EXPECT_EQ(expression_problem("a b"), "-k 'a b': at 3, 'b': expected 'and', 'or' or the end");
  EXPECT_EQ(expression_problem("(a or b"), "-k '(a or b': at 8, the end: expected ')'");
  EXPECT_EQ(expression_problem("a)"), "-k 'a)': at 2, ')': expected 'and', 'or' or the end");
  EXPECT_EQ(expression_problem("()"), "-k '()': at 2, ')': expected a word, 'not' or '('");
  EXPECT_EQ(expression_problem(""), "-k '': at 1, the end: expected a word, 'not' or '('");
}

TEST(NameExpressionTest, BoundsDepthAndLength) {
  const auto times = [](std::size_t count, const std::string& text) {
    std::string all;
    for (std::size_t i = 0; i < count; ++i) all += text;
    return all;
  };
  EXPECT_NE(expression_problem(times(100'000, "(") + "a" + times(100'000, ")"))
                .find("it is nested too deeply"),
            std::string::npos);
  EXPECT_NE(expression_problem(times(100'000, "not ") + "a").find("it is nested too deeply"),
            std::string::npos);
  EXPECT_NE(expression_problem("a" + times(100'000, " or a")).find("it is too long"),
            std::string::npos);
  EXPECT_TRUE(matches("a" + times(90, " or a"), "a"));
}

}  // namespace
}  // namespace distrun
