#include "launcher/report/worker_account.h"

#include <algorithm>
#include <sstream>
#include <string_view>
#include <vector>

#include "common/text/demangle.h"
#include "common/text/printable.h"

namespace distrun {

namespace {

using Lines = std::vector<std::string>;

constexpr std::size_t kLineBytesMax = 300;
constexpr std::string_view kTraceback = "Traceback (most recent call last)";

// After '\r' a line overwrites the previous one, as on a terminal.
std::string shown(std::string_view line) {
  while (line.ends_with('\r')) line.remove_suffix(1);
  line.remove_prefix(line.rfind('\r') + 1);  // npos + 1 is 0.
  std::string text;
  for (const char letter : line) text += letter == '\t' ? "    " : std::string(1, letter);
  while (text.ends_with(' ')) text.pop_back();
  return printable(text, kLineBytesMax);
}

Lines lines_of(const std::string& text) {
  Lines lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(shown(line));
  while (!lines.empty() && lines.back().empty()) lines.pop_back();
  return lines;
}

void keep_first(Lines& lines, std::size_t count) {
  if (lines.size() > count) lines.resize(count);
}

void keep_last(Lines& lines, std::size_t count) {
  if (lines.size() > count) lines.erase(lines.begin(), lines.end() - static_cast<long>(count));
}

bool is_traceback(const Lines& calls) {
  return std::any_of(calls.begin(), calls.end(),
                     [](const std::string& line) { return line.starts_with(kTraceback); });
}

// Python 3.11 underlines the failing part of a line.
bool is_underline(const std::string& line) {
  return line.find_first_not_of(" ^~") == std::string::npos;
}

// C runtime frames below main().
bool is_before_main(const std::string& line) {
  return line.find("/libc.so.6+0x") != std::string::npos ||
         line.find(" _start+0x") != std::string::npos;
}

Lines nearest(Lines calls, const Lines& error, std::size_t count) {
  if (!is_traceback(calls)) {
    std::erase_if(calls, is_before_main);
    keep_first(calls, count);
    return calls;
  }
  std::erase_if(calls, is_underline);
  // A traceback ends with the error itself.
  if (calls.size() >= error.size() && std::equal(error.rbegin(), error.rend(), calls.rbegin())) {
    calls.resize(calls.size() - error.size());
  }
  keep_last(calls, count);
  std::erase_if(calls, [](const std::string& line) { return line.starts_with(kTraceback); });
  return calls;
}

// `output` without the repeated report: from the traceback's first line, or the error's line, to
// the end of both.
Lines without_report(Lines output, const Lines& error, const Lines& calls) {
  if (error.empty()) return output;
  auto last = std::find_if(output.rbegin(), output.rend(), [&](const std::string& line) {
    return line.find(error.front()) != std::string::npos;
  });
  if (last == output.rend()) return output;
  auto begin = last.base() - 1, end = last.base();
  const auto known = [&](const std::string& line) {
    return std::find(calls.begin(), calls.end(), line) != calls.end() ||
           std::find(error.begin(), error.end(), line) != error.end();
  };
  while (end != output.end() && known(*end)) ++end;
  if (is_traceback(calls)) {
    const auto head =
        std::find_if(std::make_reverse_iterator(begin), output.rend(),
                     [](const std::string& line) { return line.starts_with(kTraceback); });
    // Without that line, `output` starts within the traceback.
    begin = head == output.rend() ? output.begin() : head.base() - 1;
  }
  output.erase(begin, end);
  return output;
}

// The last line of the last Python traceback in `output`; empty if none.
std::string error_of_traceback(const Lines& output) {
  const auto head = std::find_if(output.rbegin(), output.rend(), [](const std::string& line) {
    return line.starts_with(kTraceback);
  });
  const auto end = std::find_if(head.base(), output.end(), [](const std::string& line) {
    return !line.empty() && !line.starts_with(' ');
  });
  return head == output.rend() || end == output.end() ? "" : *end;
}

bool contains(const Lines& output, const std::string& text) {
  return std::any_of(output.begin(), output.end(),
                     [&](const std::string& line) { return line.find(text) != std::string::npos; });
}

// The error in one line if `output` shows it with its calls; otherwise empty.
std::string shown_error(const Lines& output, const Lines& error, const Lines& calls) {
  if (error.empty()) return error_of_traceback(output);
  const bool whole =
      contains(output, error.front()) &&
      std::all_of(calls.begin(), calls.end(), [&](auto& call) { return contains(output, call); });
  return whole ? error.front() : "";
}

std::string block(const Lines& lines, const std::string& indent) {
  std::string text;
  for (const std::string& line : lines) text += indent + line + '\n';
  return text;
}

}  // namespace

std::string worker_account(const WorkerReport& worker, const AccountBounds& bounds,
                           const std::string& indent) {
  const Lines calls = lines_of(worker.callstack);
  Lines error = lines_of(worker.error);
  const Lines printed = lines_of(demangled_backtrace(worker.last_output));
  Lines output = without_report(printed, error, calls);
  Lines where = nearest(calls, error, bounds.call_lines);
  const std::string once = bounds.below_output ? shown_error(printed, error, where) : "";
  if (!once.empty()) {
    error = {once};
    where.clear();
    output.clear();
  }
  const bool cut = error.size() > bounds.error_lines;
  keep_first(error, bounds.error_lines);
  keep_last(output, bounds.output_lines);

  std::string text;
  if (!error.empty()) {
    text += indent + "error: " + error.front() + '\n';
    text += block({error.begin() + 1, error.end()}, indent + "  ");
    if (cut) text += indent + "  …\n";
  }
  text += block(where, indent + "  ");
  if (!output.empty()) text += indent + "last lines:\n" + block(output, indent + "  ");
  if (!worker.log_folder.empty())
    text += indent + "log: " + printable(worker.log_folder, 4096) + '\n';
  return text;
}

}  // namespace distrun
