// Sends the same bytes to LibTorch's TCPStore server and to StoreServer, and compares the answers.
//
// No result depends on time. A client sends a ping after every request and reads up to its answer,
// so both servers have applied a request before the next one is sent. Servers write to woken
// clients before they answer, so after every step the test checks each waiting client of both
// servers. Only if they differ does it give the other server time.
//
// A client that leaves closes its half of the connection and reads until the server closes the
// other half and so has forgotten it.
//
// StoreServer differs on purpose (store/table/table.h). The test does not generate:
//   - a request other than cancel_wait from a client that waits; a second validate; sums beyond 64
//     bits; an append beyond the largest value
//   - part of a multi_set: LibTorch's server applies the entries that have arrived
//   - another wait, without a cancel_wait, after a push to a queue has ended a wait: LibTorch's
//     server still counts pushes to that queue for the client
//   - a second wake-up for a key with a pushed value, while a client waits for several keys:
//     LibTorch's server would count the key twice
//   - a wait for several keys, one of them a queue with values: unless all keys exist, LibTorch's
//     server counts the queue as missing
//   - a connection that does not start with validate: only StoreServer closes it
#include <algorithm>
#include <csignal>
#include <deque>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <boost/asio/post.hpp>
#include <c10/util/Logging.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <unistd.h>

#include "backends/test/store_random_requests.h"
#include "backends/test/store_raw_client.h"
#include "common/os/environment.h"
#include "common/text/parse_number.h"
#include "distrun/store_client.h"
#include "distrun/store_server.h"
#include "store/test/frames.h"

C10_DECLARE_int(caffe2_log_level);

namespace distrun {
namespace {

// LibTorch 2.11 has no barriers.
template <class Store>
constexpr bool has_barriers() {
  return requires(Store & store) { store.barrier("key", 1); };
}
constexpr bool kHasBarriers = has_barriers<c10d::Store>();

using testing::Answer;
using testing::bytes_of;
using testing::Connection;
using testing::frame;
using testing::greeting;
using testing::loopback;
using testing::Random;
using testing::Request;
using testing::RequestSource;
using testing::shown;
using testing::text;

constexpr int kRequestsInASequence = 100;
constexpr std::size_t kClientsMax = 5;
constexpr std::size_t kStepsShown = 30;
constexpr int kGraceMs = 5'000;  // For the slower server.

// Both servers, empty.
class Servers {
 public:
  Servers()
      : theirs_(c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options())),
        ours_(StoreServer::listen(io_, {}).value()),
        our_port_(ours_->port()),
        thread_([this] { io_.run(); }) {}

  ~Servers() {
    boost::asio::post(io_, [this] { ours_.reset(); });
    thread_.join();
  }

  Servers(const Servers&) = delete;
  Servers& operator=(const Servers&) = delete;

  std::uint16_t our_port() const { return our_port_; }
  std::uint16_t their_port() const { return theirs_->getPort(); }

 private:
  static c10d::TCPStoreOptions options() {
    // The server looks up the name of every client. Only an IPv4 address's name is always known
    // without the network, and the server's own socket would be IPv6.
    const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_in address = loopback(0);
    EXPECT_EQ(::bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    c10d::TCPStoreOptions options;
    options.isServer = true;
    options.waitWorkers = false;
    options.useLibUV = true;
    options.port = 0;
    options.masterListenFd = listener;  // The server closes it.
    return options;
  }

  c10::intrusive_ptr<c10d::TCPStore> theirs_;
  boost::asio::io_context io_;
  std::unique_ptr<StoreServer> ours_;
  std::uint16_t our_port_;
  std::thread thread_;
};

// Counts over all sequences.
struct Tally {
  std::map<RequestCode, int> requests;
  int waited = 0, woken = 0, woken_by_push = 0, closed = 0, left = 0, left_waiting = 0;

  int all() const {
    int sum = 0;
    for (const auto& [code, times] : requests) sum += times;
    return sum;
  }

  std::string readable() const {
    std::ostringstream line;
    line << "compared " << all() << " requests:";
    for (const auto& [code, times] : requests) {
      line << " " << times << " " << request_spec(code).name << ",";
    }
    line << " of which " << waited << " waited, " << woken << " were woken (" << woken_by_push
         << " by a push), " << closed << " closed their connection; " << left << " clients left, "
         << left_waiting << " while they waited";
    return line.str();
  }
};

// One run of random requests by several clients.
class Sequence {
 public:
  Sequence(std::uint64_t seed, Tally& tally)
      : seed_(seed), tally_(tally), random_(seed), source_(random_) {}

  // Stops at the first difference, which it reports.
  void run() {
    for (std::size_t count = 2 + random_.below(kClientsMax - 1); count > 0; --count) {
      if (!connect()) return;
    }
    while (requests_ < kRequestsInASequence) {
      if (!step()) return;
    }
    // Detects surplus bytes from a server.
    while (!clients_.empty()) {
      if (!leave(clients_.front())) return;
    }
  }

 private:
  struct Client {
    int name;
    Connection theirs, ours;
    bool waits = false;
    std::set<std::string> awaited;  // The keys it waits for.
    std::set<std::string> pushed;   // Those of them with a pushed value.
    bool remembered = false;        // LibTorch's server still counts pushes for it.
  };

  bool step() {
    ++step_;
    if (clients_.empty() || (clients_.size() < kClientsMax && random_.one_in(20))) return connect();
    Client& client = random_.pick(clients_);
    if (random_.one_in(30)) return leave(client);
    if (!client.waits) return exchange(client, request_of(client));
    std::vector<Client*> awake;
    for (Client& other : clients_) {
      if (!other.waits) awake.push_back(&other);
    }
    if (awake.empty() || random_.one_in(3)) {
      return exchange(client, {.code = RequestCode::kCancelWait});
    }
    Client& other = *random_.pick(awake);
    return exchange(other, request_of(other));
  }

  bool connect() {
    Client client{++last_name_, Connection(servers_.their_port()), Connection(servers_.our_port())};
    client.theirs.send(greeting());
    client.ours.send(greeting());
    note(client, "connects");
    clients_.push_back(std::move(client));
    ++tally_.requests[RequestCode::kValidate];
    return exchange(clients_.back(), {.code = RequestCode::kPing});
  }

  // A client may leave in the middle of a request.
  bool leave(Client& client) {
    std::string line = "leaves";
    if (!client.waits && random_.one_in(2)) {
      const Request request = next_request();
      const std::string bytes = request.bytes();
      if (request.code != RequestCode::kMultiSet) {
        const std::string part = bytes.substr(0, random_.below(bytes.size()));
        client.theirs.send(part);
        client.ours.send(part);
        line += " after " + std::to_string(part.size()) + " bytes of " + request.readable();
      }
    }
    note(client, line);
    const Answer theirs = client.theirs.leave(), ours = client.ours.leave();
    if (theirs != ours || theirs != Answer{"", Answer::End::kClosed}) {
      return differ(client, line, theirs, ours);
    }
    ++tally_.left;
    if (client.waits) ++tally_.left_waiting;
    remove(client);
    return look_at_waiting("a client that leaves");
  }

  Request request_of(const Client& client) {
    while (true) {
      const Request request = next_request();
      if (client.remembered && request.may_wait()) return {.code = RequestCode::kCancelWait};
      if (is_comparable(request)) return request;
    }
  }

  // Excludes the requests listed at the top of this file.
  bool is_comparable(const Request& request) const {
    const std::set<std::string> keys(request.keys.begin(), request.keys.end());
    switch (request.code) {
      case RequestCode::kWait:
        return keys.size() < 2 || std::none_of(keys.begin(), keys.end(), [&](const auto& key) {
                 return queued_.contains(key);
               });
      case RequestCode::kSet:
      case RequestCode::kCompareSet:
      case RequestCode::kAdd:
      case RequestCode::kAppend:
      case RequestCode::kMultiSet:
      case RequestCode::kQueuePush:
      case RequestCode::kBarrier:
        return std::none_of(clients_.begin(), clients_.end(), [&](const Client& client) {
          return client.waits && client.awaited.size() > 1 &&
                 std::any_of(keys.begin(), keys.end(),
                             [&](const auto& key) { return client.pushed.contains(key); });
        });
      default:
        return true;
    }
  }

  bool exchange(Client& client, const Request& request) {
    client.theirs.ask(request);
    client.ours.ask(request);
    const Answer theirs = client.theirs.answer_to(request), ours = client.ours.answer_to(request);
    note(client, request.readable() + " → " + theirs.readable());
    const bool well = theirs.end == Answer::End::kPong || theirs.end == Answer::End::kWaits ||
                      theirs.end == Answer::End::kClosed;
    if (theirs != ours || !well) return differ(client, request.readable(), theirs, ours);
    ++tally_.requests[request.code];
    ++requests_;
    follow(client, request, theirs);
    return look_at_waiting(request.readable());
  }

  // Updates what is_comparable() reads.
  void follow(Client& client, const Request& request, const Answer& answer) {
    if (answer.end == Answer::End::kClosed) {
      ++tally_.closed;
      return remove(client);
    }
    switch (request.code) {
      case RequestCode::kCancelWait:
        client.waits = client.remembered = false;
        break;
      case RequestCode::kQueuePush:
        ++queued_[request.keys[0]];
        for (Client& other : clients_) {
          if (other.waits && other.awaited.contains(request.keys[0])) {
            other.pushed.insert(request.keys[0]);
          }
        }
        break;
      case RequestCode::kQueuePop:
        if (const auto queue = queued_.find(request.keys[0]); queue != queued_.end()) {
          if (--queue->second == 0) queued_.erase(queue);
        }
        break;
      default:
        break;
    }
    if (answer.end != Answer::End::kWaits) return;
    ++tally_.waited;
    client.waits = true;
    client.awaited = {request.keys.begin(), request.keys.end()};
    client.pushed.clear();
  }

  Request next_request() {
    Request request = source_.draw();
    while (!kHasBarriers && request.code == RequestCode::kBarrier) request = source_.draw();
    return request;
  }

  // Compares which clients the last step has woken.
  bool look_at_waiting(const std::string& step) {
    for (Client& client : clients_) {
      if (!client.waits) continue;
      bool theirs = client.theirs.is_readable(0), ours = client.ours.is_readable(0);
      if (theirs != ours) {
        theirs = client.theirs.is_readable(theirs ? 0 : kGraceMs);
        ours = client.ours.is_readable(ours ? 0 : kGraceMs);
      }
      if (!theirs && !ours) continue;
      const Answer none{"", Answer::End::kWaits}, woken{std::string(1, '\0')};
      const Answer they_say = theirs ? client.theirs.receive_byte() : none;
      const Answer we_say = ours ? client.ours.receive_byte() : none;
      note(client, "waited and receives " + they_say.readable());
      if (they_say != we_say || they_say != woken) {
        return differ(client, "a wait, after " + step, they_say, we_say);
      }
      ++tally_.woken;
      if (!client.pushed.empty()) ++tally_.woken_by_push;
      client.waits = false;
      client.remembered = !client.pushed.empty();
    }
    return true;
  }

  void remove(Client& client) { clients_.erase(clients_.begin() + (&client - clients_.data())); }

  void note(const Client& client, const std::string& line) {
    history_.push_back("  " + std::to_string(step_) + " client " + std::to_string(client.name) +
                       " " + line + "\n");
    if (history_.size() > kStepsShown) history_.pop_front();
  }

  bool differ(const Client& client, const std::string& request, const Answer& theirs,
              const Answer& ours) {
    std::string before;
    for (const auto& line : history_) before += line;
    ADD_FAILURE() << "seed " << seed_ << ", step " << step_ << ", client " << client.name << ": "
                  << request << "\n  LibTorch's server: " << theirs.readable()
                  << "\n  StoreServer:       " << ours.readable()
                  << "\nup to there, with the answers of LibTorch's server:\n"
                  << before << "again: DISTRUN_SEED=" << seed_
                  << " backends_test --gtest_filter='StoreDifferentialTest.*Random*'";
    return false;
  }

  std::uint64_t seed_;
  Tally& tally_;
  Random random_;
  RequestSource source_;
  Servers servers_;
  std::vector<Client> clients_;
  std::map<std::string, int> queued_;  // The number of values in each queue that has any.
  std::deque<std::string> history_;
  int step_ = 0, requests_ = 0, last_name_ = 0;
};

std::uint64_t setting(const char* name, std::uint64_t otherwise) {
  const auto value = Environment::from(environ).get(name);
  return value ? parse_number<std::uint64_t>(*value).value() : otherwise;
}

class StoreDifferentialTest : public ::testing::Test {
 protected:
  void SetUp() override {
    FLAGS_caffe2_log_level = c10::GLOG_ERROR;  // The server warns of every request it refuses.
    ::signal(SIGPIPE, SIG_IGN);                // It writes to clients that may be gone.
  }
};

// Environment: DISTRUN_DIFFERENTIAL_SEQUENCES is the number of sequences (100) of a hundred
// requests each. DISTRUN_SEED runs only the sequence of that number.
TEST_F(StoreDifferentialTest, RandomRequestsGetTheSameAnswersFromBothServers) {
  const std::uint64_t only = setting("DISTRUN_SEED", 0);
  const std::uint64_t sequences = setting("DISTRUN_DIFFERENTIAL_SEQUENCES", 100);
  Tally tally;
  for (std::uint64_t seed = only != 0 ? only : 1; seed <= (only != 0 ? only : sequences); ++seed) {
    Sequence(seed, tally).run();
    if (HasFailure()) return;
  }
  std::cout << tally.readable() << std::endl;
  if (only != 0) return;
  for (const RequestSpec& spec : kRequests) {
    const bool is_known = kHasBarriers || spec.code != RequestCode::kBarrier;
    if (spec.code > RequestCode::kBarrier || !is_known) continue;  // c10d does not send it.
    EXPECT_GT(tally.requests[spec.code], 0) << spec.name << " has not been compared";
  }
  EXPECT_GT(tally.woken - tally.woken_by_push, 0);
  EXPECT_GT(tally.woken_by_push, 0);
  EXPECT_GT(tally.closed, 0);
  EXPECT_GT(tally.left_waiting, 0);
}

// Sends the request to both servers from new clients, and expects equal answers.
Answer answer_of(const Servers& servers, const Request& request) {
  Connection theirs(servers.their_port()), ours(servers.our_port());
  for (Connection* connection : {&theirs, &ours}) {
    connection->send(greeting());
    connection->ask(request);
  }
  const Answer they_say = theirs.answer_to(request), we_say = ours.answer_to(request);
  EXPECT_EQ(they_say.readable(), we_say.readable()) << request.readable();
  EXPECT_EQ(they_say, we_say) << request.readable();
  return they_say;
}

// Expects that both servers close the connection after these bytes, without waiting for the bytes
// that they announce.
void expect_refusal(const Servers& servers, const std::string& bytes) {
  for (const auto port : {servers.their_port(), servers.our_port()}) {
    Connection connection(port);
    connection.send(greeting() + bytes);
    EXPECT_EQ(connection.receive_byte(), (Answer{"", Answer::End::kClosed}))
        << shown(bytes) << (port == servers.our_port() ? " to StoreServer" : " to LibTorch's");
  }
}

TEST_F(StoreDifferentialTest, BothServersHaveTheSameLimits) {
  const Servers servers;
  const StoreLimits limits;
  const std::string key(limits.key_bytes_max, 'k'), value(limits.value_bytes_max, 'v');
  const std::vector<std::string> keys(limits.keys_max);
  EXPECT_EQ(answer_of(servers, {RequestCode::kSet, {key}, {value}}), Answer{});
  EXPECT_EQ(answer_of(servers, {RequestCode::kGet, {key}}), Answer{text(value)});
  EXPECT_EQ(answer_of(servers, {RequestCode::kCheck, keys}), Answer{"\1"});

  expect_refusal(servers, frame(RequestCode::kGet, bytes_of<std::uint64_t>(key.size() + 1)));
  for (const RequestCode code : {RequestCode::kSet, RequestCode::kAppend, RequestCode::kQueuePush,
                                 RequestCode::kCompareSet}) {
    expect_refusal(servers, frame(code, text("k") + bytes_of<std::uint64_t>(value.size() + 1)));
  }
  for (const RequestCode code :
       {RequestCode::kCheck, RequestCode::kWait, RequestCode::kMultiGet, RequestCode::kMultiSet}) {
    expect_refusal(servers, frame(code, bytes_of<std::uint64_t>(keys.size() + 1)));
  }
  for (const char* unknown : {"\x13", "G", "\xff"}) expect_refusal(servers, unknown);
}

// The commands for scripts use our client.
TEST_F(StoreDifferentialTest, StoreClientWorksWithBothServers) {
  const Servers servers;
  for (const auto port : {servers.their_port(), servers.our_port()}) {
    SCOPED_TRACE(port == servers.our_port() ? "StoreServer" : "LibTorch's");
    auto store = StoreClient::connect({"127.0.0.1", port}, std::chrono::seconds(10)).value();
    EXPECT_TRUE(store.set("k", "value"));
    EXPECT_TRUE(store.append("k", "+"));
    EXPECT_EQ(store.get("k").value(), "value+");
    EXPECT_EQ(store.get("none").value(), std::nullopt);
    EXPECT_EQ(store.add("n", -3).value(), -3);
    EXPECT_EQ(store.compare_set("c", "", "new").value(), "new");
    EXPECT_TRUE(store.check({"k", "n", "c"}).value());
    EXPECT_TRUE(store.wait({"k", "n"}, std::chrono::seconds(10)));
    const auto waited = store.wait({"none"}, std::chrono::milliseconds(10));
    ASSERT_TRUE(waited.has_error());
    EXPECT_EQ(waited.error().kind, ErrorKind::kTimedOut);
    EXPECT_TRUE(store.delete_key("n").value());
    EXPECT_THAT(store.keys().value(), ::testing::UnorderedElementsAre("k", "c"));
    if (kHasBarriers || port == servers.our_port()) {
      EXPECT_TRUE(store.barrier("b", 1, std::chrono::seconds(10)));
      EXPECT_THAT(store.keys().value(), ::testing::UnorderedElementsAre("k", "c", "b"));
    }
    EXPECT_EQ(store.status().has_value(), port == servers.our_port());
  }
}

}  // namespace
}  // namespace distrun
