#include "bench/store/operations.h"

#include <algorithm>
#include <memory>
#include <string>

#include <fmt/format.h>

#include "bench/store/client.h"
#include "store/test/frames.h"

namespace distrun::bench {

namespace {

using testing::bytes_of;
using testing::frame;
using testing::text;
using Measured = std::function<void()>;

constexpr int kKeys = 100;  // Per client.
// A set has no reply, so after this many the client waits for the reply to an add.
constexpr int kSetsInFlightMax = 100;
const std::string kValue(64, 'v');

std::string one_key(const std::string& key) { return bytes_of<std::uint64_t>(1) + text(key); }
std::string set_frame(const std::string& key) {
  return frame(RequestCode::kSet, text(key) + text(kValue));
}
std::string add_frame(const std::string& key) {
  return frame(RequestCode::kAdd, text(key) + bytes_of<std::int64_t>(1));
}
std::string wait_frame(const std::string& key) { return frame(RequestCode::kWait, one_key(key)); }

template <class MakeFrame>
std::vector<std::string> frames(int count, MakeFrame make) {
  std::vector<std::string> all;
  for (int i = 0; i < count; ++i) all.push_back(make(i));
  return all;
}

std::string key_of(const Task& task, int i) {
  return fmt::format("client/{}/key/{}", task.client, i % kKeys);
}

// The reply to an add means that everything before has been applied.
void close_series(BenchStoreClient& client, const std::string& add) {
  client.send(add);
  client.receive<std::int64_t>();
}

Measured set(const Task& task) {
  auto client = std::make_shared<BenchStoreClient>(task.port);
  return [client, count = task.count, add = add_frame("sets"),
          sets = frames(kKeys, [&](int i) { return set_frame(key_of(task, i)); })] {
    for (int i = 1; i <= count; ++i) {
      client->send(sets[i % kKeys]);
      if (i % kSetsInFlightMax == 0 || i == count) close_series(*client, add);
    }
  };
}

// A client whose keys exist.
std::shared_ptr<BenchStoreClient> client_with_keys(const Task& task) {
  auto client = std::make_shared<BenchStoreClient>(task.port);
  for (int i = 0; i < kKeys; ++i) client->send(set_frame(key_of(task, i)));
  close_series(*client, add_frame("sets"));
  return client;
}

Measured get(const Task& task) {
  return [client = client_with_keys(task), count = task.count,
          waits = frames(kKeys, [&](int i) { return wait_frame(key_of(task, i)); }),
          gets = frames(kKeys,
                        [&](int i) { return frame(RequestCode::kGet, text(key_of(task, i))); })] {
    for (int i = 0; i < count; ++i) {
      client->send(waits[i % kKeys]);
      client->receive<std::uint8_t>();
      client->send(gets[i % kKeys]);
      client->skip(sizeof(std::uint64_t) + kValue.size());
    }
  };
}

Measured add(const Task& task) {
  auto client = std::make_shared<BenchStoreClient>(task.port);
  return [client, count = task.count, add = add_frame("counter")] {
    for (int i = 0; i < count; ++i) {
      client->send(add);
      client->receive<std::int64_t>();
    }
  };
}

Measured check(const Task& task) {
  return [client = client_with_keys(task), count = task.count,
          checks = frames(
              kKeys, [&](int i) { return frame(RequestCode::kCheck, one_key(key_of(task, i))); })] {
    for (int i = 0; i < count; ++i) {
      client->send(checks[i % kKeys]);
      client->receive<std::uint8_t>();
    }
  };
}

Measured barrier(const Task& task) {
  auto client = std::make_shared<BenchStoreClient>(task.port);
  return [client, barriers = frames(task.count, [&](int i) {
                    return frame(RequestCode::kBarrier,
                                 text(fmt::format("barrier/{}/{}", task.run, i)) +
                                     bytes_of<std::int64_t>(task.clients));
                  })] {
    for (const std::string& barrier : barriers) {
      client->send(barrier);
      client->receive<std::uint8_t>();
    }
  };
}

// PyTorch's barrier for a store without that request: the last client to count sets the key for
// which all wait.
Measured barrier_by_add(const Task& task) {
  const auto count_key = [&](int i) { return fmt::format("barrier/{}/{}", task.run, i); };
  const auto last_key = [&](int i) { return count_key(i) + "/last"; };
  auto client = std::make_shared<BenchStoreClient>(task.port);
  return [client, clients = task.clients, count = task.count,
          adds = frames(task.count, [&](int i) { return add_frame(count_key(i)); }),
          sets = frames(task.count, [&](int i) { return set_frame(last_key(i)); }),
          waits = frames(task.count, [&](int i) { return wait_frame(last_key(i)); })] {
    for (int i = 0; i < count; ++i) {
      client->send(adds[i]);
      if (client->receive<std::int64_t>() == clients) client->send(sets[i]);
      client->send(waits[i]);
      client->receive<std::uint8_t>();
    }
  };
}

Measured connect(const Task& task) {
  return [port = task.port, client = std::make_shared<std::unique_ptr<BenchStoreClient>>()] {
    *client = std::make_unique<BenchStoreClient>(port);
  };
}

// Sets different keys, many in one send.
Measured fill(const Task& task) {
  auto client = std::make_shared<BenchStoreClient>(task.port);
  std::vector<std::string> sends;
  for (int i = 0; i < task.count; ++i) {
    if (i % kSetsInFlightMax == 0) sends.emplace_back();
    sends.back() += set_frame(fmt::format("client/{}/key/{}", task.client, i));
  }
  return [client, sends, add = add_frame("sets")] {
    for (const std::string& send : sends) {
      client->send(send);
      close_series(*client, add);
    }
  };
}

}  // namespace

const std::vector<Operation>& operations() {
  static const std::vector<Operation> all = {
      {.name = "set", .prepare = set},
      {.name = "get", .prepare = get},
      {.name = "add", .prepare = add},
      {.name = "check", .prepare = check},
      {.name = "barrier", .prepare = barrier},
      {.name = "add+wait", .prepare = barrier_by_add},
      {.name = "connect", .prepare = connect, .count = 1},
      {.name = "fill", .prepare = fill, .count = 125'000, .clients = 8, .fresh = true},
  };
  return all;
}

}  // namespace distrun::bench
