// StoreClient sends requests, one at a time, to a store: distrun's or any c10d TCPStore.
//
//     auto store = StoreClient::connect({"127.0.0.1", 29500}, std::chrono::seconds(10));
//     if (!store) return store.error();
//     if (auto set = store->set("ready/3", "yes"); !set) return set.error();
//     auto all = store->wait({"ready/0", "ready/1"}, std::chrono::seconds(30));
//     if (!all && all.error().kind == ErrorKind::kTimedOut) …
//
// Keys are sent as given.  torch's TCPStore class adds '/' before each key, and a PrefixStore adds
// "PREFIX/".  This client does not add a prefix.
//
// Every call to the store returns a Result and does not throw.  kTimedOut: wait() or barrier()
// timed out, or connect() could not resolve the host name or reach the host in time.  kProtocol:
// the other side closed the connection or is not a store.  kSystem: all other errors, including no
// reply within `reply_timeout`.  If wait() or barrier() fails with kTimedOut, the connection stays
// usable.  After any other error it is unusable, and later calls fail.
//
// Blocks: every call to the store blocks until the store has replied, at most `reply_timeout`.
// wait() and barrier() have their own timeouts.  With zero, they ask the store once, but do not
// wait.  With std::nullopt, they wait without limit.
// Thread safety: one thread at a time.
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
  // Connects to a store.  If nothing listens at the address, it tries again until `timeout`; zero
  // means one attempt.  Looking up a host name may take up to five seconds, and so may each
  // attempt, even if `timeout` is shorter.  `reply_timeout` limits the time until each reply,
  // except the replies to wait() and barrier().
  static Result<StoreClient> connect(
      const StoreAddress& address, std::chrono::milliseconds timeout,
      std::chrono::milliseconds reply_timeout = std::chrono::seconds(30));

  StoreClient(StoreClient&&) noexcept;
  StoreClient& operator=(StoreClient&&) noexcept;
  ~StoreClient();

  // Sets a value.
  Result<void> set(std::string_view key, std::string_view value);
  // Appends to a value; a missing key counts as empty.
  Result<void> append(std::string_view key, std::string_view value);

  // Returns the value, or nothing if the key does not exist.  It does not wait for the key.
  Result<std::optional<std::string>> get(std::string_view key);

  // Adds to the number stored at the key, or to 0 if the key does not exist.  Returns the sum.
  Result<std::int64_t> add(std::string_view key, std::int64_t number);

  // Sets the key to `wanted` if its value is `expected`, or if the key does not exist and
  // `expected` is empty.  Returns the value that the key has after the call; if the key still does
  // not exist, returns `expected`.
  Result<std::string> compare_set(std::string_view key, std::string_view expected,
                                  std::string_view wanted);

  // Deletes a key and returns whether it existed.
  Result<bool> delete_key(std::string_view key);

  // Returns all keys, in an arbitrary order.
  Result<std::vector<std::string>> keys();

  // Returns whether all these keys exist.
  Result<bool> check(const std::vector<std::string>& keys);

  // Waits for keys.
  //
  // Blocks: until all of them exist, at most `timeout`.
  Result<void> wait(const std::vector<std::string>& keys,
                    std::optional<std::chrono::milliseconds> timeout);

  // Waits for other clients.  Use a new key for each barrier.  A client whose call timed out still
  // counts.
  //
  // Blocks: until `count` clients, at least 1, have called it with this key, at most `timeout`.
  Result<void> barrier(std::string_view key, std::int64_t count,
                       std::optional<std::chrono::milliseconds> timeout);

  // Returns a StoreStatus as JSON (store_status.h).  LibTorch's server does not know this request
  // and closes the connection.
  Result<std::string> status();

  // Returns the address of this client, as the store's status shows it: "127.0.0.1:40312".
  std::string own_address() const;

 private:
  struct Impl;
  explicit StoreClient(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace distrun
