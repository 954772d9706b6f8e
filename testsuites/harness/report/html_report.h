// The results of a run as a page (--html FILE): totals, a table to filter and sort, and for each
// test a timeline of its ranks, their failures, stacks and output.
//
// One HTML file (pages/html_page.h), which contains the JSON of result_json.h. Pure.
#pragma once

#include <string>

#include "testsuites/harness/run/test_events.h"

namespace distrun {

// "4 of 8 tests failed", "All 3 tests passed": heading and title of the page.
std::string headline_of(const TestsEnded& ended);

std::string html_report(const TestsBegun& begun, const TestsEnded& ended);

}  // namespace distrun
