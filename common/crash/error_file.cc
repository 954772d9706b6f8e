#include "common/crash/error_file.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "common/os/unique_fd.h"
#include "common/os/whole_file.h"
#include "common/os/write_all.h"
#include "common/text/text_cut.h"

namespace distrun {

namespace {

using nlohmann::json;

constexpr int kDepthMax = 64;  // Writing JSON recurses once per level.

Error no_report(std::string_view why) {
  return Error{ErrorKind::kInvalidArgument, std::string(why)};
}

// The four hexadecimal digits of a "\u" escape at `at`; -1 if there are none.
int unicode_escape(std::string_view text, std::size_t at) {
  if (text.size() < at + 6 || text[at] != '\\' || text[at + 1] != 'u') return -1;
  int code = -1;
  const char* end = text.data() + at + 6;
  const auto [stop, error] = std::from_chars(text.data() + at + 2, end, code, 16);
  return error == std::errc() && stop == end ? code : -1;
}

// Python writes bytes that are not text as lone surrogates, which are not valid JSON.
std::string without_lone_surrogates(std::string_view text) {
  const auto within = [](int code, int first) { return code >= first && code < first + 0x400; };
  std::string result(text);
  for (std::size_t at = result.find('\\'); at < result.size(); at = result.find('\\', at)) {
    const int code = unicode_escape(result, at);
    if (within(code, 0xD800) && within(unicode_escape(result, at + 6), 0xDC00)) {
      at += 12;
    } else if (within(code, 0xD800) || within(code, 0xDC00)) {
      result.replace(at, 6, "\\ufffd");
      at += 6;
    } else {
      at += 2;  // Skips an escaped backslash, too.
    }
  }
  return result;
}

struct Document {  // Result<json> would be ambiguous.
  json root;
};

Result<Document> parse(std::string_view text) {
  if (text.size() > kErrorFileBytesMax) return no_report("it is longer than 1 MiB");
  bool too_deep = false;
  json document = json::parse(
      without_lone_surrogates(text),
      [&](int depth, json::parse_event_t, json&) {
        too_deep = too_deep || depth > kDepthMax;
        return !too_deep;
      },
      /*allow_exceptions=*/false);
  if (too_deep) return no_report("its JSON is nested too deeply");
  if (document.is_discarded()) return no_report("it is not JSON (truncated?)");
  if (!document.is_object() || !document.contains("message")) {
    return no_report("it has no \"message\"");
  }
  return Document{std::move(document)};
}

// Accepts a number or a text that is a number, like Python's int().
std::optional<std::int64_t> whole_number(const json& parent, const char* name) {
  const auto found = parent.find(name);
  if (found == parent.end()) return std::nullopt;
  if (found->is_number_integer()) return found->get<std::int64_t>();
  if (!found->is_string()) return std::nullopt;
  const auto& text = found->get_ref<const std::string&>();
  std::int64_t number = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && stop == text.data() + text.size() ? std::optional(number)
                                                                   : std::nullopt;
}

std::optional<int> small_number(const json& parent, const char* name) {
  const auto number = whole_number(parent, name);
  return number && std::in_range<int>(*number) ? std::optional(static_cast<int>(*number))
                                               : std::nullopt;
}

std::string text_of(const json& parent, const char* name) {
  const auto found = parent.find(name);
  return found != parent.end() && found->is_string() ? found->get<std::string>() : "";
}

constexpr std::size_t kHeadlineBytesMax = 2 * kKiB;

// First line of "py_callstack", which torchrun prints instead of the message.
std::string headline(const std::string& message) {
  std::size_t end = std::min(message.size(), kHeadlineBytesMax);
  const auto is_middle = [](char byte) {
    return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
  };
  while (end > 0 && end < message.size() && is_middle(message[end])) --end;
  return message.substr(0, end) + (end < message.size() ? "…\n" : "\n");
}

std::string without_headline(const std::string& callstack, const std::string& message) {
  const std::string line = headline(message);
  return callstack.starts_with(line) ? callstack.substr(line.size()) : callstack;
}

Result<ErrorReport> report_of(const json& document) {
  const json& message = document["message"];
  ErrorReport report;
  if (message.is_string()) {
    report.message = message.get<std::string>();
    report.timestamp = whole_number(document, "timestamp");
    return report;
  }
  if (!message.is_object()) return no_report("its \"message\" is neither a text nor an object");
  report.message = text_of(message, "message");
  report.error_code = small_number(message, "errorCode");
  if (const auto extra = message.find("extraInfo"); extra != message.end() && extra->is_object()) {
    report.callstack = without_headline(text_of(*extra, "py_callstack"), report.message);
    report.timestamp = whole_number(*extra, "timestamp");
    report.rank = small_number(*extra, "rank");
  }
  return report;
}

std::string dump(const json& document) {
  return document.dump(-1, ' ', /*ensure_ascii=*/true, json::error_handler_t::replace);
}

// JSON takes up to six bytes ("\\u0000") per byte; message, headline and callstack must fit.
constexpr std::size_t kTextBytesMax = kErrorFileBytesMax / 16;

std::string beginning(const std::string& text) { return shortened(text, kTextBytesMax); }

Result<void> write_text(const std::string& path, std::string_view text) {
  const UniqueFd file(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0644));
  if (!file) return Error::from_errno("write " + path);
  if (!write_all(file.get(), text)) return Error::from_errno("write " + path);
  return {};
}

}  // namespace

Result<ErrorReport> parse_error_report(std::string_view json) {
  const auto document = parse(json);
  if (!document) return document.error();
  return report_of(document->root);
}

std::string to_json(const ErrorReport& report) {
  json extra = {{"py_callstack", headline(report.message) + report.callstack},
                {"timestamp", std::to_string(report.timestamp.value_or(0))}};
  if (report.rank) extra["rank"] = *report.rank;
  json message = {{"message", report.message}, {"extraInfo", std::move(extra)}};
  if (report.error_code) message["errorCode"] = *report.error_code;
  return dump({{"message", std::move(message)}});
}

Result<std::optional<ErrorReport>> read_error_file(const std::string& path) {
  const auto text = read_whole_file(path, kErrorFileBytesMax);
  if (!text) return text.error();
  if (!*text || (*text)->empty()) return std::optional<ErrorReport>();
  auto report = parse_error_report(**text);
  if (!report) return report.error().with_context(path);
  return std::optional(std::move(*report));
}

Result<void> write_error_file(const std::string& path, const ErrorReport& report) {
  std::string text = to_json(report);
  if (text.size() > kErrorFileBytesMax) {
    ErrorReport bounded = report;
    bounded.message = beginning(report.message);
    bounded.callstack = beginning(report.callstack);
    text = to_json(bounded);
  }
  return write_text(path, text);
}

Result<void> copy_error_file(const std::string& from, const std::string& to, int error_code) {
  const auto text = read_whole_file(from, kErrorFileBytesMax);
  if (!text) return text.error();
  if (!*text || (*text)->empty()) return {};
  auto document = parse(**text);
  if (!document) return document.error().with_context(from);
  json& message = document->root["message"];
  if (message.is_object()) message["errorCode"] = error_code;
  return write_text(to, dump(document->root));
}

}  // namespace distrun
