// StoreClient sends requests to a store, one at a time.  The store is a StoreServer
// (store_server.h), or a TCPStore of LibTorch or Python.
//
//     auto store = StoreClient::connect({"127.0.0.1", 29500}, std::chrono::seconds(10));
//     if (!store) return store.error();
//     if (auto set = store->set("ready/3", "yes"); !set) return set.error();
//     auto all = store->wait({"ready/0", "ready/1"}, std::chrono::seconds(30));
//     if (!all && all.error().kind == ErrorKind::kTimedOut) …
//
// StoreClient sends keys unchanged.  LibTorch's class TCPStore puts '/' before each key.
// LibTorch's class PrefixStore puts "PREFIX/" before each key.  To read the key KEY that a TCPStore
// has set, pass "/KEY".  If a PrefixStore over a TCPStore has set it, pass "/PREFIX/KEY".
//
// The methods return a Result and do not throw.  They fail with these errors:
//
//     kTimedOut     wait() or barrier() timed out
//     kTimedOut     connect() timed out while it looked up the host name or connected to the host
//     kProtocol     the other side has closed the connection, or is not a store
//     kSystem       any other error: for example, no process listens at the address, or the store
//                   has not replied within `reply_timeout`
//
// If wait() or barrier() fails with kTimedOut, the connection remains usable.  After any other
// error, the connection is unusable, and later calls fail.
//
// Blocks: a method blocks until the store has replied.  The request must be sent within
// `reply_timeout`, and the reply must then arrive within `reply_timeout`.  The replies to wait()
// and barrier() have another limit: the argument `timeout`.  If `timeout` is zero, these two
// methods ask the store once and do not wait.  If `timeout` is std::nullopt, they wait without
// limit.
// Thread safety: one thread at a time.
// Cost: one round trip for each call.  If wait() or barrier() times out, the call needs a second
// round trip.
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
  // Connects to a store.  If an attempt fails, for example because no process listens at the
  // address, connect() tries again until `timeout`.  If `timeout` is zero, connect() makes one
  // attempt.  `reply_timeout` is the time limit for each reply, except the replies to wait() and
  // barrier().
  //
  // Blocks: at most `timeout`, with two exceptions.  The look-up of a host name may take five
  // seconds, even if `timeout` is shorter.  The last attempt may also take five seconds, even if
  // `timeout` expires during this attempt.
  // Cost: a host name is looked up on a new thread.  This thread ends when the look-up ends.
  static Result<StoreClient> connect(
      const StoreAddress& address, std::chrono::milliseconds timeout,
      std::chrono::milliseconds reply_timeout = std::chrono::seconds(30));

  StoreClient(StoreClient&&) noexcept;
  StoreClient& operator=(StoreClient&&) noexcept;
  ~StoreClient();

  // Sets the value of a key.
  Result<void> set(std::string_view key, std::string_view value);
  // Appends to the value of a key.  If the key does not exist, sets it to `value`.
  Result<void> append(std::string_view key, std::string_view value);

  // Returns the value of a key, or nothing if the key does not exist.  Does not wait for the key.
  Result<std::optional<std::string>> get(std::string_view key);

  // Adds `number` to the number that is the value of the key, and returns the sum.  If the key does
  // not exist, its value counts as 0.
  Result<std::int64_t> add(std::string_view key, std::int64_t number);

  // Sets the key to `desired` if its value is `expected`.  An empty `expected` also matches a key
  // that does not exist.  Returns the value that the key has after the call.  If the key still does
  // not exist, returns `expected`.
  Result<std::string> compare_set(std::string_view key, std::string_view expected,
                                  std::string_view desired);

  // Deletes a key.  Returns whether the key existed.
  Result<bool> delete_key(std::string_view key);

  // Returns all keys of the store, in an arbitrary order.
  Result<std::vector<std::string>> keys();

  // Returns whether all these keys exist.
  Result<bool> check(const std::vector<std::string>& keys);

  // Waits until all these keys exist.
  //
  // Blocks: at most `timeout`.
  Result<void> wait(const std::vector<std::string>& keys,
                    std::optional<std::chrono::milliseconds> timeout);

  // Waits until clients have called barrier() with this key `count` times, including this call.  A
  // call that timed out still counts.  `count` is at least 1.  Use a new key for each barrier.
  //
  // Blocks: at most `timeout`.
  Result<void> barrier(std::string_view key, std::int64_t count,
                       std::optional<std::chrono::milliseconds> timeout);

  // Returns the status of a StoreServer as JSON.  Parse it with store_status_from_json()
  // (store_status.h).  LibTorch's server does not know this request and closes the connection.
  Result<std::string> status();

  // Returns the address of this client, such as "127.0.0.1:40312".  The store's status shows the
  // same address.
  std::string own_address() const;

 private:
  struct Impl;
  explicit StoreClient(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace distrun
