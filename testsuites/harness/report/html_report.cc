#include "testsuites/harness/report/html_report.h"

#include <algorithm>

#include <fmt/format.h>

#include "pages/html_page.h"
#include "testsuites/harness/report/result_json.h"

namespace distrun {

namespace {

std::string tests_of(std::size_t count) {
  return fmt::format("{} test{}", count, count == 1 ? "" : "s");
}

}  // namespace

std::string headline_of(const TestsEnded& ended) {
  const int passed = ended.summary.passed, failed = ended.summary.failed,
            skipped = ended.summary.skipped, flaky = ended.summary.flaky;
  const std::size_t all = ended.results.size();
  const auto interrupted = static_cast<int>(
      std::count_if(ended.results.begin(), ended.results.end(), [](const TestResult& result) {
        return result.status == TestStatus::kInterrupted && !was_not_run(result);
      }));
  const int unfinished = interrupted + ended.summary.not_run;
  if (failed > interrupted) {
    const std::string text = fmt::format("{} of {} failed", failed - interrupted, tests_of(all));
    return unfinished == 0 ? text : fmt::format("{}; {} did not finish", text, unfinished);
  }
  if (unfinished > 0) return fmt::format("{} of {} did not finish", unfinished, tests_of(all));
  if (passed == 0)
    return skipped == 0 ? "No test ran" : fmt::format("No test ran; {} skipped", skipped);
  if (flaky > 0) return fmt::format("No test failed; {} of {} flaky", flaky, tests_of(all));
  if (skipped > 0)
    return fmt::format("{} passed, {} skipped", tests_of(static_cast<std::size_t>(passed)),
                       skipped);
  return all == 1 ? "The test passed" : fmt::format("All {} passed", tests_of(all));
}

std::string html_report(const TestsBegun& begun, const TestsEnded& ended) {
  return html_page(Page::kTests, headline_of(ended) + " – distrun test", result_json(begun, ended));
}

}  // namespace distrun
