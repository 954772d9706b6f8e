#include "launcher/line_splitter.h"

#include <algorithm>

namespace distrun {

void LineSplitter::add(std::string_view bytes) {
  while (!bytes.empty()) {
    const std::size_t newline = bytes.find('\n');
    const bool whole = newline != std::string_view::npos;
    const std::size_t room = kLineBytesMax - partial_.size();
    const std::size_t size = std::min(whole ? newline + 1 : bytes.size(), room);
    const std::string_view piece = bytes.substr(0, size);
    bytes.remove_prefix(size);
    if (partial_.empty() && piece.back() == '\n') {
      line_(piece);
      continue;
    }
    partial_.append(piece);
    if (partial_.back() == '\n' || partial_.size() == kLineBytesMax) end();
  }
}

void LineSplitter::end() {
  if (partial_.empty()) return;
  line_(partial_);
  partial_.clear();
}

}  // namespace distrun
