#include "testsuites/harness/report/html_report.h"

#include <fmt/format.h>

#include "pages/html_page.h"
#include "testsuites/harness/report/result_json.h"

namespace distrun {

std::string html_report(const TestsBegun& begun, const TestsEnded& ended) {
  const TestsSummary& summary = ended.summary;
  const std::string title =
      summary.failed > 0 ? fmt::format("{} of {} failed", summary.failed, ended.results.size())
                         : fmt::format("{} passed", summary.passed);
  return html_page(Page::kTests, title + " – distrun test", result_json(begun, ended));
}

}  // namespace distrun
