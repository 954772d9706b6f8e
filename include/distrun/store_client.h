// StoreClient sends requests to a store, one at a time.  The store may be a StoreServer
// (store_server.h) or a TCPStore of LibTorch or Python.
//
//     auto store = StoreClient::connect({"127.0.0.1", 29500}, std::chrono::seconds(10));
//     if (!store) return store.error();
//     if (auto set = store->set("ready/3", "yes"); !set) return set.error();
//     auto all = store->wait({"ready/0", "ready/1"}, std::chrono::seconds(30));
//     if (!all && all.error().kind == ErrorKind::kTimedOut) …
//
// StoreClient sends keys unchanged.  LibTorch's TCPStore class puts '/' before each key, and its
// PrefixStore puts "PREFIX/" before each key.  To read a key that such a client has set, pass the
// key with these prefixes.
//
// The methods return a Result and do not throw.  They fail with these errors:
//
//     kTimedOut     wait() or barrier() timed out, or the look-up of a host name or the connection
//                   to the host took too long in connect()
//     kProtocol     the other side has closed the connection, or is not a store
//     kSystem       any other error: for example, nothing listens at the address, or no reply
//                   arrived within `reply_timeout`
//
// If wait() or barrier() fails with kTimedOut, the connection stays usable.  After any other error
// the connection is unusable, and later calls fail.
//
// Blocks: a method blocks until the store has replied.  The request must be sent within
// `reply_timeout`, and its reply must then arrive within `reply_timeout`.  wait() and barrier()
// have their own timeouts for the reply.  With a timeout of zero, they ask the store once and do
// not wait.  With std::nullopt, they wait without limit.
// Thread safety: one thread at a time.
// Cost: one round trip for each call, and a second one if wait() or barrier() times out.
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
  // Connects to a store.  If the attempt fails, for example because nothing listens at the address,
  // tries again until `timeout`.  Zero means one attempt.  `reply_timeout` limits the time until
  // each reply, except the replies to wait() and barrier().
  //
  // Blocks: until the client is connected, or an attempt fails after `timeout`.  The look-up of a
  // host name may take five seconds, even if `timeout` is shorter.  The last attempt may also take
  // five seconds, even if `timeout` expires during the attempt.
  // Cost: a host name is looked up on a new thread, which ends with the look-up.
  static Result<StoreClient> connect(
      const StoreAddress& address, std::chrono::milliseconds timeout,
      std::chrono::milliseconds reply_timeout = std::chrono::seconds(30));

  StoreClient(StoreClient&&) noexcept;
  StoreClient& operator=(StoreClient&&) noexcept;
  ~StoreClient();

  // Sets the value of a key.
  Result<void> set(std::string_view key, std::string_view value);
  // Appends to the value of a key.  A key that does not exist counts as empty.
  Result<void> append(std::string_view key, std::string_view value);

  // Returns the value of a key, or nothing if the key does not exist.  Does not wait for the key.
  Result<std::optional<std::string>> get(std::string_view key);

  // Adds to the number stored at the key, or to 0 if the key does not exist.  Returns the sum.
  Result<std::int64_t> add(std::string_view key, std::int64_t number);

  // Sets the key to `wanted` if its value is `expected`, or if the key does not exist and
  // `expected` is empty.  Returns the value that the key has after the call.  If the key still does
  // not exist, returns `expected`.
  Result<std::string> compare_set(std::string_view key, std::string_view expected,
                                  std::string_view wanted);

  // Deletes a key and returns whether it existed.
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

  // Waits until `count` calls of barrier() with this key have been made, including this call.
  // `count` is at least 1.  Use a new key for each barrier.  A call that timed out still counts.
  //
  // Blocks: at most `timeout`.
  Result<void> barrier(std::string_view key, std::int64_t count,
                       std::optional<std::chrono::milliseconds> timeout);

  // Returns the status of a StoreServer as JSON.  Parse it with store_status_from_json()
  // (store_status.h).  LibTorch's server does not know this request and closes the connection.
  Result<std::string> status();

  // Returns the address of this client as the store's status shows it, such as "127.0.0.1:40312".
  std::string own_address() const;

 private:
  struct Impl;
  explicit StoreClient(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace distrun
