#include "launcher/nodes/text_outbox.h"

#include <string_view>
#include <utility>

#include "common/text/text_cut.h"

namespace distrun {

namespace {

constexpr std::size_t kPieceBytesMax = kNodeMessageBytesMax - kKiB;

// At most so many bytes of JSON. A byte that is not UTF-8 becomes U+FFFD, which has three.
std::size_t json_bytes_of(char byte) {
  const auto code = static_cast<unsigned char>(byte);
  if (code < 0x20) return 6;
  if (code >= 0x80) return 3;
  return byte == '"' || byte == '\\' ? 2 : 1;
}

// The beginning of `text` that fits into a message.
std::string_view fitting(std::string_view text) {
  std::size_t size = 0, bytes = 0;
  while (size < text.size() && (bytes += json_bytes_of(text[size])) <= kPieceBytesMax) ++size;
  return size == text.size() ? text : cut_to_bytes(text, size);
}

}  // namespace

void TextOutbox::add(std::string text) {
  bytes_ += text.size();
  texts_.push_back(std::move(text));
}

NodeText TextOutbox::next() {
  const std::string_view rest = std::string_view(texts_.front()).substr(sent_);
  NodeText message{.piece = std::string(fitting(rest))};
  message.is_last = message.piece.size() == rest.size();
  bytes_ -= message.piece.size();
  sent_ += message.piece.size();
  if (message.is_last) {
    texts_.pop_front();
    sent_ = 0;
  }
  return message;
}

}  // namespace distrun
