#include "distrun/store_client.h"

#include <algorithm>
#include <cstring>
#include <future>
#include <optional>
#include <thread>
#include <utility>

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <fmt/format.h>
#include <netdb.h>

#include "common/deadline.h"
#include "common/units.h"
#include "store/network/endpoint_text.h"
#include "store/network/look_up.h"
#include "store/protocol/request.h"
#include "store/protocol/wire.h"

namespace distrun {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using std::chrono::milliseconds;

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kReplyBytesMax = 1 * kGiB;             // No store answers with more.
constexpr milliseconds kFirstPause(20), kLongestPause(500);  // Between attempts to connect.
constexpr milliseconds kOneAttempt(5000);                    // Each attempt gets at least this.

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

// In a detached thread, because a look-up cannot be canceled.
Result<ResolvedAddresses> look_up_before(Clock::time_point deadline, const StoreAddress& address) {
  auto promise = std::make_shared<std::promise<Result<ResolvedAddresses>>>();
  auto found = promise->get_future();
  std::thread([promise, address] {
    promise->set_value(look_up(address.host, address.port));
  }).detach();
  if (found.wait_until(deadline) != std::future_status::ready) {
    return Error{ErrorKind::kTimedOut, "the host's name was not resolved in time"};
  }
  return found.get();
}

}  // namespace

struct StoreClient::Impl {
  explicit Impl(StoreAddress store, milliseconds for_replies)
      : address(std::move(store)), reply_timeout(for_replies) {}

  const StoreAddress address;
  const milliseconds reply_timeout;
  asio::io_context io{1};
  tcp::socket socket{io};
  tcp::endpoint own;
  bool broken = false;  // The position in the stream of answers is unknown.

  Clock::time_point soon() const { return deadline_after(reply_timeout); }

  std::string name() const { return "store at " + address.text(); }

  // Runs the started operation until `done` or the deadline. Returns `done`.
  bool run_until(Clock::time_point deadline, const bool& done) {
    io.restart();
    while (!done && io.run_one_until(deadline) > 0) {
    }
    return done;
  }

  // Requires that the operation has been canceled.
  void run_to_end(const bool& done) {
    while (!done && io.run_one() > 0) {
    }
  }

  Result<void> connect(milliseconds timeout) {
    const auto begin = Clock::now(), deadline = deadline_after(timeout, begin);
    ResolvedAddresses endpoints;
    error_code not_numeric;
    const auto numeric = asio::ip::make_address(address.host, not_numeric);
    if (!not_numeric) {
      endpoints = {{numeric, address.port}};
    } else {
      auto found = look_up_before(std::max(deadline, begin + kOneAttempt), address);
      if (!found) return found.error().with_context(name());
      endpoints = std::move(*found);
    }
    for (milliseconds pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
      const auto attempt_ends = std::max(deadline, Clock::now() + kOneAttempt);
      auto connected = connect_once(endpoints, attempt_ends);
      if (connected) return greet(std::min(soon(), attempt_ends));
      if (Clock::now() + pause >= deadline) return connected;
      bool done = false;
      asio::steady_timer timer(io, pause);
      timer.async_wait([&](error_code) { done = true; });
      io.restart();
      run_to_end(done);
    }
  }

  Result<void> connect_once(const ResolvedAddresses& endpoints, Clock::time_point deadline) {
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
      return Error{ErrorKind::kTimedOut, name() + ": connecting timed out"};
    }
    if (error) return Error::from_errno(name(), error.value());
    socket.set_option(tcp::no_delay(true), ignored);
    own = socket.local_endpoint(ignored);
    return {};
  }

  Result<void> greet(Clock::time_point deadline) {
    constexpr std::uint32_t kNonce = 0x6469'7374;
    std::string bytes = request(RequestCode::kValidate);
    append_number<std::uint32_t>(bytes, kValidateMagic);
    bytes += request(RequestCode::kPing);
    append_number<std::uint32_t>(bytes, kNonce);
    if (const auto sent = send(bytes); !sent) return sent.error();
    const auto answer = receive(sizeof(kNonce), deadline);
    if (!answer) return answer.error();
    if (number_at<std::uint32_t>(*answer) != kNonce) {
      return Error{ErrorKind::kProtocol, name() + ": the server there is not a store"};
    }
    return {};
  }

  Result<void> send(const std::string& bytes) {
    if (broken) return Error{ErrorKind::kSystem, name() + ": the connection failed earlier"};
    error_code error;
    bool done = false;
    asio::async_write(socket, asio::buffer(bytes), [&](error_code result, std::size_t) {
      done = true;
      error = result;
    });
    if (!run_until(soon(), done)) {
      socket.cancel();
      run_to_end(done);
      return failed({ErrorKind::kSystem, name() + " does not read"});
    }
    if (error) return ended(error);
    return {};
  }

  // For an immediate answer.
  Result<std::string> receive(std::size_t size) { return receive(size, soon()); }
  Result<std::string> receive(std::size_t size, Clock::time_point deadline) {
    auto bytes = receive_until(size, deadline);
    if (!bytes && bytes.error().kind == ErrorKind::kTimedOut) {
      return failed({ErrorKind::kSystem, name() + " does not answer"});
    }
    return bytes;
  }

  // Fails with kTimedOut if no byte has come; the connection then stays usable.
  Result<std::string> receive_until(std::size_t size, Clock::time_point deadline) {
    std::string bytes;
    try {
      bytes.resize(size);
    } catch (const std::bad_alloc&) {
      return failed(
          Error::from_errno(fmt::format("{}: an answer of {} bytes", name(), size), ENOMEM));
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
      if (got == 0 && size > 0) return Error{ErrorKind::kTimedOut, ""};
      // All bytes may have come at the last moment.
      if (got < size) return failed({ErrorKind::kSystem, name() + " does not answer"});
    }
    if (got < size) return ended(error);
    return bytes;
  }

  Result<std::string> ask(const std::string& bytes, std::size_t size) {
    if (const auto sent = send(bytes); !sent) return sent.error();
    return receive(size);
  }

  template <class Number>
  Result<Number> receive_number(Clock::time_point deadline) {
    const auto bytes = receive(sizeof(Number), deadline);
    if (!bytes) return bytes.error();
    return number_at<Number>(*bytes);
  }

  Result<std::string> receive_text(Clock::time_point deadline) {
    const auto size = receive_number<std::uint64_t>(deadline);
    if (!size) return size.error();
    if (*size > kReplyBytesMax) {
      return failed({ErrorKind::kProtocol,
                     fmt::format("{}: an answer of {} bytes is not a store's", name(), *size)});
    }
    return receive(static_cast<std::size_t>(*size), deadline);
  }

  // For requests without answers: once the ping after one is answered, it has been applied.
  Result<void> apply(std::string bytes) {
    bytes += request(RequestCode::kPing);
    append_number<std::uint32_t>(bytes, 0);
    const auto pong = ask(bytes, sizeof(std::uint32_t));
    if (!pong) return pong.error();
    return {};
  }

  // For a request that is answered later.
  Result<void> wait(const std::string& bytes, std::optional<milliseconds> timeout) {
    const auto deadline = timeout ? deadline_after(*timeout) : Clock::time_point::max();
    if (const auto sent = send(bytes); !sent) return sent.error();
    auto answer = receive_until(1, deadline);
    if (answer && answer->front() == kStopWaiting) return {};
    if (answer) return not_a_wait();
    if (answer.error().kind != ErrorKind::kTimedOut) return answer.error();
    answer = ask(request(RequestCode::kCancelWait), 1);
    if (!answer) return answer.error();
    if (answer->front() == kWaitCanceled) {
      const std::chrono::duration<double> seconds = timeout.value_or(milliseconds(0));
      return Error{ErrorKind::kTimedOut, fmt::format("timed out after {} s", seconds.count())};
    }
    // The answer and the cancellation crossed.
    answer = receive(1);
    if (!answer) return answer.error();
    if (answer->front() != kWaitCanceled) return not_a_wait();
    return {};
  }

  Error failed(Error error) {
    broken = true;
    return error;
  }

  Error not_a_wait() {
    return failed({ErrorKind::kProtocol, name() + ": its answer to a wait is not that of a store"});
  }

  Error ended(error_code error) {
    if (error == asio::error::eof || error == asio::error::connection_reset ||
        error == asio::error::broken_pipe) {
      return failed({ErrorKind::kProtocol,
                     name() + " closed the connection: it is not a store, it has exited, or it "
                              "refused the client or the request (see 'distrun store status')"});
    }
    return failed(Error::from_errno(name(), error.value()));
  }
};

Result<StoreClient> StoreClient::connect(const StoreAddress& address, milliseconds timeout,
                                         milliseconds reply_timeout) {
  try {
    auto impl = std::make_unique<Impl>(address, reply_timeout);
    if (const auto connected = impl->connect(timeout); !connected) return connected.error();
    return StoreClient(std::move(impl));
  } catch (const std::exception& error) {  // Out of descriptors, threads or memory.
    return Error{ErrorKind::kSystem, "store at " + address.text() + ": " + error.what()};
  }
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
  // Both requests in one write, so that the key cannot be deleted between them.
  const auto bytes =
      request(RequestCode::kCheck, std::vector{std::string(key)}) + request(RequestCode::kGet, key);
  const auto missing = impl_->ask(bytes, 1);
  if (!missing) return missing.error();
  auto value = impl_->receive_text(impl_->soon());
  if (!value) return value.error();
  if (missing->front() != 0) return std::optional<std::string>();
  return std::optional(std::move(*value));
}

Result<std::int64_t> StoreClient::add(std::string_view key, std::int64_t number) {
  std::string bytes = request(RequestCode::kAdd, key);
  append_number(bytes, number);
  if (const auto sent = impl_->send(bytes); !sent) return sent.error();
  return impl_->receive_number<std::int64_t>(impl_->soon());
}

Result<std::string> StoreClient::compare_set(std::string_view key, std::string_view expected,
                                             std::string_view desired) {
  std::string bytes = request(RequestCode::kCompareSet, key);
  append_text(bytes, expected);
  append_text(bytes, desired);
  if (const auto sent = impl_->send(bytes); !sent) return sent.error();
  return impl_->receive_text(impl_->soon());
}

Result<bool> StoreClient::delete_key(std::string_view key) {
  if (const auto sent = impl_->send(request(RequestCode::kDeleteKey, key)); !sent) {
    return sent.error();
  }
  const auto deleted = impl_->receive_number<std::int64_t>(impl_->soon());
  if (!deleted) return deleted.error();
  return *deleted > 0;
}

Result<std::vector<std::string>> StoreClient::keys() {
  if (const auto sent = impl_->send(request(RequestCode::kListKeys)); !sent) return sent.error();
  const auto deadline = impl_->soon();
  const auto count = impl_->receive_number<std::int64_t>(deadline);
  if (!count) return count.error();
  std::vector<std::string> keys;
  for (std::int64_t i = 0; i < *count; ++i) {
    auto key = impl_->receive_text(deadline);
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

Result<void> StoreClient::wait(const std::vector<std::string>& keys,
                               std::optional<milliseconds> timeout) {
  return impl_->wait(request(RequestCode::kWait, keys), timeout);
}

Result<void> StoreClient::barrier(std::string_view key, std::int64_t count,
                                  std::optional<milliseconds> timeout) {
  std::string bytes = request(RequestCode::kBarrier, key);
  append_number(bytes, count);
  return impl_->wait(bytes, timeout);
}

Result<std::string> StoreClient::status() {
  if (const auto sent = impl_->send(request(RequestCode::kStatus)); !sent) return sent.error();
  return impl_->receive_text(impl_->soon());
}

std::string StoreClient::own_address() const { return text_of(impl_->own); }

}  // namespace distrun
