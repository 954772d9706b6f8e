#include "testsuites/harness/report/html_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "testsuites/harness/test/results.h"

namespace distrun {
namespace {

using ::testing::HasSubstr;

TEST(HtmlReportTest, HasTheResultsAndATitle) {
  const std::string page = html_report(
      {}, {.summary = {.passed = 1, .failed = 1}, .results = {passed_test("a"), failed_test("b")}});
  EXPECT_THAT(page, HasSubstr("<title>1 of 2 failed – distrun test</title>"));
  EXPECT_THAT(page, HasSubstr(R"({"id":"gloo.CommTest.b","status":"failed")"));
  EXPECT_THAT(html_report({}, {.summary = {.passed = 2}}),
              HasSubstr("<title>2 passed – distrun test</title>"));
}

}  // namespace
}  // namespace distrun
