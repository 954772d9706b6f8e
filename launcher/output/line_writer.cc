#include "launcher/output/line_writer.h"

#include <algorithm>

namespace distrun {

std::string_view LineWriter::add(std::string_view piece, LineSplitter::Ending ending,
                                 std::string_view prefix, bool interrupted, std::string& buffer) {
  if (interrupted && line_is_open()) at_ = At::kBroken;
  if (prefix.empty()) {
    if (at_ == At::kBroken && piece.starts_with('\n')) piece.remove_prefix(1);
    if (!piece.empty()) at_ = piece.ends_with('\n') ? At::kLineStart : At::kInLine;
    return piece;
  }
  buffer.clear();
  while (!piece.empty()) {
    const std::size_t line = std::min(piece.find('\n'), piece.size() - 1) + 1;
    add_line(piece.substr(0, line), prefix, buffer);
    piece.remove_prefix(line);
  }
  if (ending == LineSplitter::Ending::kTooLong) {
    buffer += '\n';
    at_ = At::kBroken;
  }
  return buffer;
}

void LineWriter::add_line(std::string_view line, std::string_view prefix, std::string& text) {
  if (at_ == At::kBroken && line == "\n") {
    at_ = At::kLineStart;
    return;
  }
  while (!line.empty()) {
    // Up to the next '\r' that overwrites the line, or all of it.
    const std::size_t returned = line.find('\r');
    const bool over = returned != std::string_view::npos && line.substr(returned) != "\r\n";
    const std::string_view shown = line.substr(0, over ? returned : line.size());
    if (!shown.empty()) {
      if (at_ == At::kLineStart || at_ == At::kBroken || (at_ == At::kReturned && shown != "\n")) {
        text += prefix;
      }
      if (at_ == At::kBroken) text += kContinued;
      text += shown;
      at_ = shown.ends_with('\n') ? At::kLineStart : At::kInLine;
    }
    if (over) {
      text += '\r';
      at_ = At::kReturned;
    }
    line.remove_prefix(shown.size() + (over ? 1 : 0));
  }
}

}  // namespace distrun
