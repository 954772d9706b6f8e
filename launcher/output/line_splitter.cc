#include "launcher/output/line_splitter.h"

#include <algorithm>

#include "common/text/text_cut.h"

namespace distrun {

void LineSplitter::add(std::string_view bytes) {
  // Limits each part, so that whole lines respect the limit too.
  for (; bytes.size() > kLineBytesMax; bytes.remove_prefix(kLineBytesMax)) {
    add_some(bytes.substr(0, kLineBytesMax));
  }
  add_some(bytes);
}

void LineSplitter::end() {
  if (!partial_.empty()) pass_partial(Ending::kLast);
  live_ = false;
}

void LineSplitter::pass_unfinished() {
  if (partial_.empty()) return;
  std::string cut = partial_.substr(whole_utf8(partial_).size());
  partial_.resize(partial_.size() - cut.size());
  if (!partial_.empty()) pass_partial(Ending::kLive);
  partial_ = std::move(cut);
}

void LineSplitter::add_some(std::string_view bytes) {
  // First the rest of an unfinished line.
  while (!bytes.empty() && (live_ || !partial_.empty())) {
    const std::size_t newline = bytes.find('\n');
    const bool whole = newline != std::string_view::npos;
    const std::size_t rest = whole ? newline + 1 : bytes.size();
    if (live_) {
      piece_(bytes.substr(0, rest), whole ? Ending::kLineEnd : Ending::kLive);
      live_ = !whole;
      bytes.remove_prefix(rest);
      continue;
    }
    const std::size_t size = std::min(rest, kLineBytesMax - partial_.size());
    keep(bytes.substr(0, size));
    bytes.remove_prefix(size);
  }
  // Then whole lines.
  const std::size_t newline = last_newline(bytes);
  if (newline != std::string_view::npos) {
    piece_(bytes.substr(0, newline + 1), Ending::kLineEnd);
    bytes.remove_prefix(newline + 1);
  }
  if (!bytes.empty()) keep(bytes);
}

// Requires that `bytes` fits and has no newline before its end.
void LineSplitter::keep(std::string_view bytes) {
  partial_.append(bytes);
  if (partial_.back() == '\n') return pass_partial(Ending::kLineEnd);
  // A final '\r' may be the start of "\r\n": then this line is only passed on early.
  if (returns_ == Returns::kLive && bytes.find('\r') != std::string_view::npos) {
    live_ = true;
    return pass_partial(Ending::kLive);
  }
  if (partial_.size() < kLineBytesMax) return;
  std::string cut = partial_.substr(whole_utf8(partial_).size());
  partial_.resize(partial_.size() - cut.size());
  pass_partial(Ending::kTooLong);
  partial_ = std::move(cut);
}

void LineSplitter::pass_partial(Ending ending) {
  piece_(partial_, ending);
  partial_.clear();
}

}  // namespace distrun
