#include "store/client.h"

#include <algorithm>
#include <utility>

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <fmt/format.h>

#include "common/parse_number.h"
#include "common/units.h"
#include "store/wire.h"

namespace distrun {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using std::chrono::milliseconds;

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kReplyBytesMax = 1 * kGiB;             // More is not a store's answer.
constexpr milliseconds kFirstPause(20), kLongestPause(500);  // Between attempts to connect.
constexpr milliseconds kOneAttempt(5000);                    // At least.
constexpr char kStopWaiting = 0, kWaitCanceled = 1;

std::string request(RequestCode code) { return std::string(1, static_cast<char>(code)); }

std::string request(RequestCode code, std::string_view key) {
  std::string bytes = request(code);
  append_text(bytes, key);
  return bytes;
}

std::string request(RequestCode code, const std::vector<std::string>& keys) {
  std::string bytes = request(code);
  append_number<std::uint64_t>(bytes, keys.size());
  for (const auto& key : keys) append_text(bytes, key);
  return bytes;
}

}  // namespace

std::string StoreAddress::text() const {
  const bool v6 = host.find(':') != std::string::npos;
  return v6 ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

Result<StoreAddress> parse_store_address(std::string_view text) {
  const Error malformed{
      ErrorKind::kInvalidArgument,
      fmt::format("'{}' is not HOST:PORT, as in 127.0.0.1:29500 or [::1]:29500", text)};
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return malformed;
  std::string_view host = text.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return malformed;
  }
  const auto port = parse_number<std::uint16_t>(text.substr(colon + 1), 1);
  if (host.empty() || !port) return malformed;
  return StoreAddress{std::string(host), *port};
}

struct StoreClient::Impl {
  explicit Impl(StoreAddress store, milliseconds for_replies)
      : address(std::move(store)), reply_timeout(for_replies) {}

  const StoreAddress address;
  const milliseconds reply_timeout;
  asio::io_context io{1};
  tcp::socket socket{io};

  Clock::time_point soon() const { return Clock::now() + reply_timeout; }

  std::string name() const { return "store at " + address.text(); }

  // Runs what has been started until it is done or the deadline has come; true where it is done.
  bool run_until(Clock::time_point deadline, const bool& done) {
    io.restart();
    while (!done && io.run_one_until(deadline) > 0) {
    }
    return done;
  }

  // After the cancellation of what has been started.
  void run_to_end(const bool& done) {
    while (!done && io.run_one() > 0) {
    }
  }

  Result<void> connect(milliseconds timeout) {
    const auto deadline = Clock::now() + timeout;
    const auto endpoints = resolve(std::max(deadline, soon()));
    if (!endpoints) return endpoints.error();
    for (milliseconds pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
      auto connected = connect_once(*endpoints, std::max(deadline, Clock::now() + kOneAttempt));
      if (connected || Clock::now() + pause >= deadline) return connected;
      bool done = false;
      asio::steady_timer timer(io, pause);
      timer.async_wait([&](error_code) { done = true; });
      io.restart();
      while (!done) io.run_one();
    }
  }

  Result<std::vector<tcp::endpoint>> resolve(Clock::time_point deadline) {
    error_code error;
    const auto numeric = asio::ip::make_address(address.host, error);
    if (!error) return std::vector{tcp::endpoint(numeric, address.port)};
    tcp::resolver resolver(io);
    std::vector<tcp::endpoint> endpoints;
    bool done = false;
    resolver.async_resolve(address.host, std::to_string(address.port),
                           [&](error_code result, const tcp::resolver::results_type& found) {
                             done = true;
                             error = result;
                             for (const auto& entry : found) endpoints.push_back(entry);
                           });
    if (!run_until(deadline, done)) {
      resolver.cancel();
      run_to_end(done);
      return Error{ErrorKind::kTimedOut, name() + ": the host's name is not resolved in time"};
    }
    if (error) return Error{ErrorKind::kSystem, name() + ": " + error.message()};
    return endpoints;
  }

  Result<void> connect_once(const std::vector<tcp::endpoint>& endpoints,
                            Clock::time_point deadline) {
    error_code error, ignored;
    bool done = false;
    socket.close(ignored);
    asio::async_connect(socket, endpoints, [&](error_code result, const tcp::endpoint&) {
      done = true;
      error = result;
    });
    if (!run_until(deadline, done)) {
      socket.close(ignored);
      run_to_end(done);
      return Error{ErrorKind::kTimedOut, name() + ": no connection in time"};
    }
    if (error) return Error::from_errno(name(), error.value());
    socket.set_option(tcp::no_delay(true), ignored);
    return greet();
  }
  Result<void> greet() {
    constexpr std::uint32_t kNonce = 0x6469'7374;
    std::string bytes = request(RequestCode::kValidate);
    append_number<std::uint32_t>(bytes, kValidateMagic);
    bytes += request(RequestCode::kPing);
    append_number<std::uint32_t>(bytes, kNonce);
    const auto answer = ask(bytes, sizeof(kNonce));
    if (!answer) return answer.error();
    if (number_at<std::uint32_t>(*answer) != kNonce) {
      return Error{ErrorKind::kProtocol, name() + ": what listens there is not a store"};
    }
    return {};
  }

  Result<void> send(const std::string& bytes) {
    error_code error;
    bool done = false;
    asio::async_write(socket, asio::buffer(bytes), [&](error_code result, std::size_t) {
      done = true;
      error = result;
    });
    if (!run_until(soon(), done)) {
      socket.cancel();
      run_to_end(done);
      return Error{ErrorKind::kTimedOut, name() + " does not read"};
    }
    if (error) return ended(error);
    return {};
  }

  Result<std::string> receive(std::size_t size) { return receive(size, soon()); }

  Result<std::string> receive(std::size_t size, Clock::time_point deadline) {
    std::string bytes;
    try {
      bytes.resize(size);
    } catch (const std::bad_alloc&) {
      return Error::from_errno(fmt::format("{}: an answer of {} bytes", name(), size), ENOMEM);
    }
    error_code error;
    std::size_t got = 0;
    bool done = false;
    asio::async_read(socket, asio::buffer(bytes), [&](error_code result, std::size_t now) {
      done = true;
      error = result;
      got = now;
    });
    if (!run_until(deadline, done)) {
      socket.cancel();
      run_to_end(done);
      // It may have come at the last moment.
      if (got < size) return Error{ErrorKind::kTimedOut, name() + " does not answer"};
    }
    if (got < size) return ended(error);
    return bytes;
  }

  Result<std::string> ask(const std::string& bytes, std::size_t size) {
    if (const auto sent = send(bytes); !sent) return sent.error();
    return receive(size);
  }

  template <class Number>
  Result<Number> receive_number() {
    const auto bytes = receive(sizeof(Number));
    if (!bytes) return bytes.error();
    return number_at<Number>(*bytes);
  }

  Result<std::string> receive_text() {
    const auto size = receive_number<std::uint64_t>();
    if (!size) return size.error();
    if (*size > kReplyBytesMax) {
      return Error{ErrorKind::kProtocol,
                   fmt::format("{}: an answer of {} bytes is not a store's", name(), *size)};
    }
    return receive(static_cast<std::size_t>(*size));
  }

  // A request without an answer has been applied when the next one is answered.
  Result<void> apply(std::string bytes) {
    bytes += request(RequestCode::kPing);
    append_number<std::uint32_t>(bytes, 0);
    const auto pong = ask(bytes, sizeof(std::uint32_t));
    if (!pong) return pong.error();
    return {};
  }

  // Of a request that the store answers when it sees fit.
  Result<void> wait(const std::string& bytes, milliseconds timeout) {
    const auto deadline = Clock::now() + timeout;
    if (const auto sent = send(bytes); !sent) return sent.error();
    auto answer = receive(1, deadline);
    if (answer && answer->front() == kStopWaiting) return {};
    if (answer) return not_a_wait();
    if (answer.error().kind != ErrorKind::kTimedOut) return answer.error();
    answer = ask(request(RequestCode::kCancelWait), 1);
    if (!answer) return answer.error();
    if (answer->front() == kWaitCanceled) {
      const std::chrono::duration<double> seconds = timeout;
      return Error{ErrorKind::kTimedOut, fmt::format("not within {} s", seconds.count())};
    }
    // The end of the wait and its cancellation have crossed.
    answer = receive(1);
    if (!answer) return answer.error();
    if (answer->front() != kWaitCanceled) return not_a_wait();
    return {};
  }

  Error not_a_wait() const {
    return {ErrorKind::kProtocol, name() + ": its answer to a wait is not one of a store"};
  }

  Error ended(error_code error) const {
    if (error == asio::error::eof || error == asio::error::connection_reset ||
        error == asio::error::broken_pipe) {
      return {ErrorKind::kProtocol,
              name() +
                  " ended the connection: it is no store, it has ended, or the request went "
                  "beyond its limits ('distrun store status' tells)"};
    }
    return Error::from_errno(name(), error.value());
  }
};

Result<StoreClient> StoreClient::connect(const StoreAddress& address, milliseconds timeout,
                                         milliseconds reply_timeout) {
  auto impl = std::make_unique<Impl>(address, reply_timeout);
  if (const auto connected = impl->connect(timeout); !connected) return connected.error();
  return StoreClient(std::move(impl));
}

StoreClient::StoreClient(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
StoreClient::StoreClient(StoreClient&&) noexcept = default;
StoreClient& StoreClient::operator=(StoreClient&&) noexcept = default;
StoreClient::~StoreClient() = default;

Result<void> StoreClient::set(std::string_view key, std::string_view value) {
  std::string bytes = request(RequestCode::kSet, key);
  append_text(bytes, value);
  return impl_->apply(std::move(bytes));
}

Result<void> StoreClient::append(std::string_view key, std::string_view value) {
  std::string bytes = request(RequestCode::kAppend, key);
  append_text(bytes, value);
  return impl_->apply(std::move(bytes));
}

Result<std::optional<std::string>> StoreClient::get(std::string_view key) {
  // Asked for in one piece, or the key could go in between.
  const auto bytes =
      request(RequestCode::kCheck, std::vector{std::string(key)}) + request(RequestCode::kGet, key);
  const auto missing = impl_->ask(bytes, 1);
  if (!missing) return missing.error();
  auto value = impl_->receive_text();
  if (!value) return value.error();
  if (missing->front() != 0) return std::optional<std::string>();
  return std::optional(std::move(*value));
}

Result<std::int64_t> StoreClient::add(std::string_view key, std::int64_t number) {
  std::string bytes = request(RequestCode::kAdd, key);
  append_number(bytes, number);
  if (const auto sent = impl_->send(bytes); !sent) return sent.error();
  return impl_->receive_number<std::int64_t>();
}

Result<std::string> StoreClient::compare_set(std::string_view key, std::string_view expected,
                                             std::string_view wanted) {
  std::string bytes = request(RequestCode::kCompareSet, key);
  append_text(bytes, expected);
  append_text(bytes, wanted);
  if (const auto sent = impl_->send(bytes); !sent) return sent.error();
  return impl_->receive_text();
}

Result<bool> StoreClient::delete_key(std::string_view key) {
  if (const auto sent = impl_->send(request(RequestCode::kDeleteKey, key)); !sent) {
    return sent.error();
  }
  const auto deleted = impl_->receive_number<std::int64_t>();
  if (!deleted) return deleted.error();
  return *deleted > 0;
}

Result<std::vector<std::string>> StoreClient::keys() {
  if (const auto sent = impl_->send(request(RequestCode::kListKeys)); !sent) return sent.error();
  const auto count = impl_->receive_number<std::int64_t>();
  if (!count) return count.error();
  std::vector<std::string> keys;
  for (std::int64_t i = 0; i < *count; ++i) {
    auto key = impl_->receive_text();
    if (!key) return key.error();
    keys.push_back(std::move(*key));
  }
  return keys;
}

Result<bool> StoreClient::check(const std::vector<std::string>& keys) {
  const auto missing = impl_->ask(request(RequestCode::kCheck, keys), 1);
  if (!missing) return missing.error();
  return missing->front() == 0;
}

Result<void> StoreClient::wait(const std::vector<std::string>& keys, milliseconds timeout) {
  return impl_->wait(request(RequestCode::kWait, keys), timeout);
}

Result<void> StoreClient::barrier(std::string_view key, std::int64_t count, milliseconds timeout) {
  std::string bytes = request(RequestCode::kBarrier, key);
  append_number(bytes, count);
  return impl_->wait(bytes, timeout);
}

Result<std::string> StoreClient::status() {
  if (const auto sent = impl_->send(request(RequestCode::kStatus)); !sent) return sent.error();
  return impl_->receive_text();
}

tcp::endpoint StoreClient::own_endpoint() const { return impl_->socket.local_endpoint(); }

tcp::endpoint StoreClient::store_endpoint() const { return impl_->socket.remote_endpoint(); }

}  // namespace distrun
