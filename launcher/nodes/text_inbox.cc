#include "launcher/nodes/text_inbox.h"

#include <utility>

#include <fmt/format.h>

namespace distrun {

Result<std::optional<std::string>> TextInbox::add(const NodeText& message) {
  if (message.piece.size() > text_bytes_max_ - text_.size()) {
    return Error{ErrorKind::kProtocol,
                 fmt::format("it sends a text of more than {} bytes", text_bytes_max_)};
  }
  text_ += message.piece;
  if (!message.is_last) return std::optional<std::string>();
  return std::optional(std::exchange(text_, {}));
}

}  // namespace distrun
