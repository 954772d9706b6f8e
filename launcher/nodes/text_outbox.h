// TextOutbox keeps the texts that this node has not yet sent to another, and cuts them into pieces
// that fit into messages.
//
//     TextOutbox outbox;
//     outbox.add(R"({"test": "gloo.all_reduce"})");
//     while (!outbox.is_empty() && …there is room…) channel->send(outbox.next());
//
// Pure.
#pragma once

#include <cstddef>
#include <deque>
#include <string>

#include "launcher/nodes/node_messages.h"

namespace distrun {

class TextOutbox {
 public:
  // `text` is UTF-8. For other bytes, the receiver gets U+FFFD.
  void add(std::string text);

  bool is_empty() const { return texts_.empty(); }

  // Bytes that wait.
  std::size_t bytes() const { return bytes_; }

  // The next piece of the oldest text. Requires that the outbox is not empty.
  NodeText next();

 private:
  std::deque<std::string> texts_;
  std::size_t sent_ = 0;  // Bytes of the oldest text.
  std::size_t bytes_ = 0;
};

}  // namespace distrun
