// A report as one HTML file, which needs no other file and no network.
//
//     html_page(Page::kTests, "distrun test: 2 of 9 tests failed", result_json(begun, ended))
//
// `data` is JSON that the page's script shows: for kTests that of result_json.h, for kRun that of
// run_record.h.  Text from it cannot become markup or script.  The parts of the page are next to
// this file: page.html, style.css, common.js and a script for each kind.  Pure.
#pragma once

#include <string>
#include <string_view>

namespace distrun {

enum class Page { kTests, kRun };

std::string html_page(Page page, std::string_view title, std::string_view data);

}  // namespace distrun
