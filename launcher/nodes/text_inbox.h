// TextInbox puts the texts of another node together from their pieces.
//
//     TextInbox inbox;
//     const auto text = inbox.add(message);      // NodeText
//     if (!text) …the node is lost: text.error()…
//     if (*text) handle(**text);                 // That was the last piece.
//
// Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "launcher/nodes/node_messages.h"

namespace distrun {

class TextInbox {
 public:
  explicit TextInbox(std::size_t text_bytes_max = kNodeTextBytesMax)
      : text_bytes_max_(text_bytes_max) {}

  // Returns the whole text if this is its last piece. Fails with kProtocol if the text is too long;
  // do not call it after that.
  Result<std::optional<std::string>> add(const NodeText& message);

 private:
  std::size_t text_bytes_max_;
  std::string text_;
};

}  // namespace distrun
