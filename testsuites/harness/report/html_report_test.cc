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
  EXPECT_THAT(page, HasSubstr("<title>1 of 2 tests failed – distrun test</title>"));
  EXPECT_THAT(page, HasSubstr(R"({"id":"gloo.CommTest.b","status":"failed")"));
}

TEST(HtmlReportTest, HeadlineSaysTheWorst) {
  const TestResult passed = passed_test("a"), failed = failed_test("b");
  TestResult interrupted = failed_test("c");
  interrupted.status = TestStatus::kInterrupted;
  const TestResult skipped = skipped_test("d", "no GPU");
  EXPECT_EQ(headline_of({.summary = {.passed = 1}, .results = {passed}}), "The test passed");
  EXPECT_EQ(headline_of({.summary = {.passed = 2}, .results = {passed, passed}}),
            "All 2 tests passed");
  EXPECT_EQ(headline_of({.summary = {.passed = 1, .skipped = 1}, .results = {passed, skipped}}),
            "1 test passed, 1 skipped");
  EXPECT_EQ(headline_of({.summary = {.passed = 2, .flaky = 1}, .results = {passed, passed}}),
            "No test failed; 1 of 2 tests flaky");
  EXPECT_EQ(headline_of({.summary = {.passed = 1, .failed = 1}, .results = {passed, interrupted}}),
            "1 of 2 tests did not finish");
  EXPECT_EQ(headline_of({.summary = {.passed = 1, .failed = 2, .not_run = 1},
                         .results = {passed, interrupted, failed, skipped}}),
            "1 of 4 tests failed; 2 did not finish");
  EXPECT_EQ(headline_of({.summary = {.skipped = 1}, .results = {skipped}}),
            "No test ran; 1 skipped");
  EXPECT_EQ(headline_of({}), "No test ran");
}

}  // namespace
}  // namespace distrun
