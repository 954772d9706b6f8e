#include "store/server/store_connection.h"

#include <cerrno>
#include <utility>

#include <sys/socket.h>

namespace distrun {

namespace {

// Empties a buffer's front; what a large request or reply took is given back.
void drop_front(std::string& buffer, std::size_t size) {
  if (size > 0) buffer.erase(0, size);
  if (buffer.empty() && buffer.capacity() > kFreeBufferBytes) buffer.shrink_to_fit();
}

}  // namespace

void StoreConnection::drop_unread(std::size_t size) { drop_front(unread, size); }

bool StoreConnection::send_replies() {
  while (sent < replies.size()) {
    const auto size = ::send(socket.native_handle(), replies.data() + sent, replies.size() - sent,
                             MSG_NOSIGNAL | MSG_DONTWAIT);
    if (size > 0) {
      sent += static_cast<std::size_t>(size);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      break;
    } else if (errno != EINTR) {
      return false;
    }
  }
  // Moved to the front rarely: a slow reader takes a large answer in many small pieces.
  if (sent >= replies.size() / 2) drop_front(replies, std::exchange(sent, 0));
  return true;
}

}  // namespace distrun
