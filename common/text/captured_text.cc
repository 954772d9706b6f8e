#include "common/text/captured_text.h"

#include <algorithm>

#include <fmt/format.h>

#include "common/text/text_cut.h"

namespace distrun {

namespace {

LostText lost_with(std::string_view text) {
  const auto lines = std::count(text.begin(), text.end(), '\n');
  return {.lines = static_cast<std::size_t>(lines), .bytes = text.size()};
}

LostText operator+(const LostText& one, const LostText& other) {
  return {.lines = one.lines + other.lines, .bytes = one.bytes + other.bytes};
}

// Up to the last end of a line, unless the incomplete line is long.
std::string_view whole_lines_at_begin(std::string_view text) {
  const std::size_t end = last_newline(text);
  const std::size_t bytes = end == std::string_view::npos ? 0 : end + 1;
  const bool is_long = text.size() - bytes > CapturedText::kLineBytesMax;
  return is_long ? whole_utf8(text) : text.substr(0, bytes);
}

// The same from the first start of a line.
std::string_view whole_lines_at_end(std::string_view text) {
  const std::size_t line = text.find('\n') + 1;  // 0 if there is none.
  if (line > 0 && line < text.size() && line <= CapturedText::kLineBytesMax)
    return text.substr(line);
  return from_first_character(text);
}

}  // namespace

std::string gap_line(const LostText& lost) {
  if (lost.lines == 0) return fmt::format("[{} bytes omitted]", lost.bytes);
  return fmt::format("[{} line{}, {} bytes omitted]", lost.lines, lost.lines == 1 ? "" : "s",
                     lost.bytes);
}

void CapturedText::add(std::string_view bytes) {
  const std::size_t taken = std::min(bytes.size(), kHeadBytesMax - head_.size());
  head_ += bytes.substr(0, taken);
  tail_ += bytes.substr(taken);
  if (tail_.size() <= 2 * kTailBytesMax) return;  // Cutting moves the tail, so cut rarely.
  const std::size_t surplus = tail_.size() - kTailBytesMax;
  left_out_ = left_out_ + lost_with(std::string_view(tail_).substr(0, surplus));
  at_line_start_ = tail_[surplus - 1] == '\n';
  tail_.erase(0, surplus);
}

CapturedText::Kept CapturedText::kept() const {
  const std::size_t surplus = tail_.size() - std::min(tail_.size(), kTailBytesMax);
  Kept kept{head_, std::string_view(tail_).substr(surplus), left_out_};
  if (left_out_.bytes + surplus == 0) return kept;
  const bool at_line_start = surplus > 0 ? tail_[surplus - 1] == '\n' : at_line_start_;
  kept.head = whole_lines_at_begin(kept.head);
  if (!at_line_start) kept.tail = whole_lines_at_end(kept.tail);
  kept.lost = kept.lost + lost_with(std::string_view(head_).substr(kept.head.size())) +
              lost_with(std::string_view(tail_).substr(0, tail_.size() - kept.tail.size()));
  return kept;
}

std::string CapturedText::text() const {
  const Kept kept = this->kept();
  if (kept.lost.bytes == 0) return head_ + tail_;
  const char* newline = kept.head.empty() || kept.head.ends_with('\n') ? "" : "\n";
  return fmt::format("{}{}{}\n{}", kept.head, newline, gap_line(kept.lost), kept.tail);
}

}  // namespace distrun
