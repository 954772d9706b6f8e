// StoreClient talks to a store, a request at a time: distrun's own, or any c10d TCPStore.
//
//     auto store = StoreClient::connect({"127.0.0.1", 29500}, std::chrono::seconds(10));
//     if (!store) return store.error();
//     if (auto set = store->set("ready/3", "yes"); !set) return set.error();
//     auto all = store->wait({"ready/0", "ready/1"}, std::chrono::seconds(30));
//     if (!all && all.error().kind == ErrorKind::kTimedOut) …
//
// Keys are those on the wire: the TCPStore class of torch puts a '/' before a key of its
// callers, and a PrefixStore "PREFIX/"; this client puts nothing.
//
// Every call blocks.  A time-out of zero means "do not wait", and std::nullopt, where a call takes
// it, "no time-out".  An answer that the store gives at once is waited for as long as the reply
// time-out of connect() says.
// Errors are kTimedOut, which only connect(), wait() and barrier() have; kProtocol, if the other
// side ends the connection or sends what no store does; kSystem.  After any but the kTimedOut of
// wait() and barrier() the connection is of no use, and further calls fail.
//
// One thread at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "distrun/result.h"
#include "distrun/store_address.h"

namespace distrun {

class StoreClient {
 public:
  // Tries until `timeout` is over if nothing listens there yet; once if it is zero.  Every attempt
  // may take five seconds.  A host that is not an address is looked up, within the same time.
  // `reply_timeout` is how long the store may take for an answer that it does not have to wait for.
  static Result<StoreClient> connect(
      const StoreAddress& address, std::chrono::milliseconds timeout,
      std::chrono::milliseconds reply_timeout = std::chrono::seconds(30));

  StoreClient(StoreClient&&) noexcept;
  StoreClient& operator=(StoreClient&&) noexcept;
  ~StoreClient();

  // Returns when the store has applied it.
  Result<void> set(std::string_view key, std::string_view value);
  Result<void> append(std::string_view key, std::string_view value);

  // Nothing where there is no such key.
  Result<std::optional<std::string>> get(std::string_view key);

  // A key that is not there counts as 0.  Returns the sum.
  Result<std::int64_t> add(std::string_view key, std::int64_t number);

  // Sets the key to `wanted` where its value is `expected`, or where it is not there and
  // `expected` is empty.  Returns the value it has then; where it is not there, `expected`.
  Result<std::string> compare_set(std::string_view key, std::string_view expected,
                                  std::string_view wanted);

  // Whether it was there.
  Result<bool> delete_key(std::string_view key);

  Result<std::vector<std::string>> keys();  // In no order.

  Result<bool> check(const std::vector<std::string>& keys);  // Whether all are there.

  // Returns when all keys are there.
  Result<void> wait(const std::vector<std::string>& keys,
                    std::optional<std::chrono::milliseconds> timeout);

  // Returns when `count` clients, at least 1, have called it for this key.  A key serves for one
  // barrier, and who has given up still counts.
  Result<void> barrier(std::string_view key, std::int64_t count,
                       std::optional<std::chrono::milliseconds> timeout);

  // A StoreStatus as JSON (store_status.h).  LibTorch's own server does not know this request, and
  // ends the connection.
  Result<std::string> status();

  // This end of the connection, as the store's status has it: "127.0.0.1:40312".
  std::string own_address() const;

 private:
  struct Impl;
  explicit StoreClient(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace distrun
