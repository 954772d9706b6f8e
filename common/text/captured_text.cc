#include "common/text/captured_text.h"

#include <algorithm>

#include <fmt/format.h>

namespace distrun {

void CapturedText::add(std::string_view bytes) {
  const std::size_t taken = std::min(bytes.size(), kHeadBytesMax - head_.size());
  head_ += bytes.substr(0, taken);
  tail_ += bytes.substr(taken);
  if (tail_.size() <= 2 * kTailBytesMax) return;  // Cutting moves the tail, so cut rarely.
  left_out_ += tail_.size() - kTailBytesMax;
  tail_.erase(0, tail_.size() - kTailBytesMax);
}

std::string CapturedText::text() const {
  const std::size_t surplus = tail_.size() - std::min(tail_.size(), kTailBytesMax);
  if (left_out_ + surplus == 0) return head_ + tail_;
  const char* newline = head_.ends_with('\n') ? "" : "\n";
  return fmt::format("{}{}[{} bytes omitted]\n{}", head_, newline, left_out_ + surplus,
                     std::string_view(tail_).substr(surplus));
}

}  // namespace distrun
