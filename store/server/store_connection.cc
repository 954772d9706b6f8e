#include "store/server/store_connection.h"

#include <cerrno>
#include <utility>

#include <sys/socket.h>

namespace distrun {

namespace {

// Removes the front of a buffer.  Frees the memory of a large request or reply.
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
  // A slow reader takes a large reply in many small pieces, so move the rest rarely.
  if (sent >= replies.size() / 2) drop_front(replies, std::exchange(sent, 0));
  return true;
}

}  // namespace distrun
