#include "common/text/json_number.h"

#include <cstddef>
#include <limits>

#include <gtest/gtest.h>

namespace distrun {
namespace {

using nlohmann::json;

template <class Number>
std::optional<Number> number_in(const char* text) {
  return whole_number<Number>(json::parse(text));
}

TEST(WholeNumberTest, ReadsNumbersWithinTheBoundsOfTheType) {
  EXPECT_EQ(number_in<int>("-7"), -7);
  EXPECT_EQ(number_in<std::size_t>("0"), 0u);
  EXPECT_EQ(number_in<std::int8_t>("-128"), std::int8_t{-128});
  EXPECT_EQ(number_in<std::int8_t>("127"), std::int8_t{127});
  EXPECT_EQ(number_in<std::int64_t>("-9223372036854775808"), INT64_MIN);
  EXPECT_EQ(number_in<std::uint64_t>("18446744073709551615"), UINT64_MAX);
}

TEST(WholeNumberTest, RefusesNumbersOutsideTheBoundsOfTheType) {
  EXPECT_EQ(number_in<std::size_t>("-1"), std::nullopt);
  EXPECT_EQ(number_in<std::int8_t>("128"), std::nullopt);
  EXPECT_EQ(number_in<std::int8_t>("257"), std::nullopt);
  EXPECT_EQ(number_in<std::int8_t>("-129"), std::nullopt);
  EXPECT_EQ(number_in<std::int64_t>("9223372036854775808"), std::nullopt);
  EXPECT_EQ(number_in<std::uint64_t>("18446744073709551616"), std::nullopt);
}

TEST(WholeNumberTest, RefusesOtherValues) {
  for (const char* text : {"1.0", "1.5", "1e3", "1e300", "true", "null", "\"1\"", "[1]", "{}"}) {
    EXPECT_EQ(number_in<std::int64_t>(text), std::nullopt) << text;
  }
}

TEST(WholeNumberTest, RequiredNumberThrowsWithTheField) {
  EXPECT_EQ(required_number<int>(json(3)), 3);
  try {
    required_number<int>(json::parse("1.5"));
    ADD_FAILURE() << "1.5 was taken";
  } catch (const std::out_of_range& error) {
    EXPECT_STREQ(error.what(), "1.5 is not a whole number within its bounds");
  }
  EXPECT_THROW(required_number<int>(json("not \xff UTF-8")), std::out_of_range);
}

TEST(WholeNumberTest, ReadsFieldsThatWereNotParsed) {
  EXPECT_EQ(whole_number<unsigned>(json(3)), 3u);
  EXPECT_EQ(whole_number<unsigned>(json(-3)), std::nullopt);
  EXPECT_EQ(whole_number<int>(json(3u)), 3);
}

}  // namespace
}  // namespace distrun
