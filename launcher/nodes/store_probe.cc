#include "launcher/nodes/store_probe.h"

#include <array>
#include <string>
#include <utility>

#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>

#include "store/protocol/request.h"
#include "store/protocol/wire.h"

namespace distrun {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

constexpr std::uint32_t kNonce = 0x64697374;

std::string probe_request(RequestCode code, std::uint32_t number) {
  std::string bytes(1, static_cast<char>(code));
  append_number(bytes, number);
  return bytes;
}

}  // namespace

struct StoreProbe::Impl : std::enable_shared_from_this<Impl> {
  Impl(asio::io_context& io, std::function<void(Found)> to) : socket(io), handler(std::move(to)) {}

  tcp::socket socket;
  std::function<void(Found)> handler;
  std::string sending;
  std::array<char, sizeof(kNonce)> answer{};

  void begin(const tcp::endpoint& at) {
    socket.async_connect(at, [self = shared_from_this()](error_code error) {
      if (error) return self->end(Found::kNoStore);
      const std::string hello = probe_request(RequestCode::kValidate, kValidateMagic) +
                                probe_request(RequestCode::kPing, kNonce);
      self->send_and_read(hello, self->answer.size(), Found::kNoStore, [](Impl& impl) {
        const bool is_same =
            number_at<std::uint32_t>({impl.answer.data(), impl.answer.size()}) == kNonce;
        if (!is_same) return impl.end(Found::kNoStore);
        impl.send_and_read(std::string(1, static_cast<char>(RequestCode::kStatus)), 1,
                           Found::kTcpStore, [](Impl& its) { its.end(Found::kDistrunStore); });
      });
    });
  }

  // Ends with `otherwise` if the other side closes first.
  template <class Then>
  void send_and_read(std::string bytes, std::size_t size, Found otherwise, Then then) {
    sending = std::move(bytes);
    asio::async_write(
        socket, asio::buffer(sending),
        [self = shared_from_this(), size, otherwise, then](error_code failed, std::size_t) {
          if (failed) return self->end(otherwise);
          asio::async_read(self->socket, asio::buffer(self->answer, size),
                           [self, otherwise, then](error_code error, std::size_t) {
                             if (error) return self->end(otherwise);
                             then(*self);
                           });
        });
  }

  void end(Found found) {
    const auto tell = std::exchange(handler, nullptr);
    close();
    if (tell) tell(found);
  }

  void close() {
    handler = nullptr;
    error_code ignored;
    socket.close(ignored);
  }
};

StoreProbe::StoreProbe(asio::io_context& io, const tcp::endpoint& at,
                       std::function<void(Found)> handler)
    : impl_(std::make_shared<Impl>(io, std::move(handler))) {
  impl_->begin(at);
}

StoreProbe::~StoreProbe() { impl_->close(); }

}  // namespace distrun
