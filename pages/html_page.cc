#include "pages/html_page.h"

#include "pages/page_parts.h"

namespace distrun {

namespace {

// Escapes characters that may end the surrounding element or attribute.
std::string escaped_html(std::string_view text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '&':
        result += "&amp;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

// Escapes '<', which could end the element. JSON has it only in strings.
std::string escaped_json(std::string_view json) {
  std::string result;
  result.reserve(json.size());
  for (const char c : json) {
    if (c == '<') {
      result += "\\u003c";
    } else {
      result += c;
    }
  }
  return result;
}

std::string script_of(Page page) {
  std::string script = kCommonScript;
  switch (page) {
    case Page::kTests:
      script += kTestsScript;
      break;
    case Page::kRun:
      script += kRunScript;
      break;
  }
  return script;
}

}  // namespace

std::string html_page(Page page, std::string_view title, std::string_view data) {
  std::string text;
  std::string_view rest = kPage;
  // Marks in inserted text are not replaced.
  const auto put = [&](std::string_view mark, const std::string& what) {
    const auto at = rest.find(mark);
    text.append(rest.substr(0, at)).append(what);
    rest.remove_prefix(at + mark.size());
  };
  put("@PAGE_TITLE@", escaped_html(title));
  put("@PAGE_STYLE@", kStyle);
  put("@PAGE_DATA@", escaped_json(data));
  put("@PAGE_SCRIPT@", script_of(page));
  return text.append(rest);
}

}  // namespace distrun
