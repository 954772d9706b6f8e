// A report as one HTML file, which needs no other file and no network.
//
//     html_page(Page::kTests, "distrun test: 2 of 9 tests failed", result_json(begun, ended))
//
// `data` is the JSON that the page's script shows: result_json.h's for kTests, run_record.h's for
// kRun. Its text cannot become markup or script. The parts of the page are next to this file:
// page.html, style.css, common.js and a script for each kind. Pure.
#pragma once

#include <string>
#include <string_view>

namespace distrun {

enum class Page { kTests, kRun };

std::string html_page(Page page, std::string_view title, std::string_view data);

}  // namespace distrun
