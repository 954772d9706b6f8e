#include "launcher/output/last_lines.h"

#include <algorithm>

#include "common/text/text_cut.h"

namespace distrun {

void LastLines::add(std::string_view bytes) {
  // Keep only the last lines of `bytes`, and the newline before them, which ends an earlier line.
  std::size_t begin = bytes.size();
  for (std::size_t line = 0; line <= kLinesMax && begin > 0; ++line) {
    const std::size_t newline = last_newline(bytes.substr(0, begin));
    begin = newline == std::string_view::npos ? 0 : newline;
  }
  bytes.remove_prefix(begin);

  while (!bytes.empty()) {
    const std::size_t newline = bytes.find('\n');
    if (lines_.empty() || lines_.back().whole) lines_.emplace_back();
    extend(lines_.back(), bytes.substr(0, newline));
    lines_.back().whole = newline != std::string_view::npos;
    bytes.remove_prefix(std::min(newline, bytes.size() - 1) + 1);
    if (lines_.size() > kLinesMax) lines_.pop_front();
  }
}

void LastLines::extend(Line& line, std::string_view bytes) {
  const bool ends_returned = bytes.ends_with('\r');
  while (bytes.ends_with('\r')) bytes.remove_suffix(1);
  const std::size_t over = bytes.rfind('\r');
  if (over != std::string_view::npos || (line.returned && !bytes.empty())) {
    line.bytes.clear();
    line.cut = false;
    bytes.remove_prefix(over == std::string_view::npos ? 0 : over + 1);
  }
  if (!bytes.empty() || ends_returned) line.returned = ends_returned;
  const std::size_t room = kLineBytesMax - line.bytes.size();
  line.cut = line.cut || bytes.size() > room;
  line.bytes += bytes.substr(0, room);
}

std::string LastLines::text() const {
  std::string text;
  for (const Line& line : lines_) {
    text += line.cut ? whole_utf8(line.bytes) : std::string_view(line.bytes);
    text += line.cut ? "…\n" : "\n";
  }
  return text;
}

}  // namespace distrun
