// Broken and malicious clients lose their connections, and other clients do not notice.
#include <limits>
#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/units.h"
#include "store/test/served_store.h"

namespace distrun {
namespace {

using testing::bytes_of;
using testing::Client;
using testing::frame;
using testing::greeting;
using ::testing::HasSubstr;
using testing::text;

constexpr std::uint64_t kOneKey = 1;

class HostileClientsTest : public testing::StoreServerTest {
 protected:
  // Why the server refused the last client; may be empty.
  std::string last_reason() {
    return see([&] {
      const auto closed = server_->status().closed;
      return closed.empty() ? "" : closed.front().reason;
    });
  }

  std::size_t bytes() {
    return see([&] { return static_cast<std::size_t>(server_->status().bytes); });
  }

  // Expects that a client that sends `bytes` is refused, while another is served.
  void expect_refused(const std::string& bytes, const std::string& reason) {
    Client other = greeted_client(), hostile = greeted_client();
    ASSERT_TRUE(other.round_trip());
    ASSERT_TRUE(hostile.round_trip());
    hostile.send(bytes);
    EXPECT_TRUE(hostile.is_closed_by_peer()) << reason;
    EXPECT_THAT(last_reason(), HasSubstr(reason));
    EXPECT_TRUE(other.round_trip()) << reason;
  }
};

TEST_F(HostileClientsTest, ClientWithoutValidGreetingIsRefused) {
  const std::map<std::string, std::string> openings = {
      {"GET / HTTP/1.1\r\n\r\n", "no request has the code 71"},
      {frame(RequestCode::kSet, text("k") + text("v")), "begins with set instead of validate"},
      {frame(RequestCode::kValidate, bytes_of<std::uint32_t>(0x3C85F7CF)), "instead of 0x3c85f7ce"},
      {frame(RequestCode::kStatus), "begins with status instead of validate"},
  };
  Client good = greeted_client();
  for (const auto& [bytes, reason] : openings) {
    Client hostile(port_);
    hostile.send(bytes);
    EXPECT_TRUE(hostile.is_closed_by_peer()) << reason;
    EXPECT_THAT(last_reason(), HasSubstr(reason));
    EXPECT_TRUE(good.round_trip());
  }
}

TEST_F(HostileClientsTest, UnknownRequestIsRefused) {
  for (const int code : {19, 20, 127, 223, 225, 255}) {
    expect_refused(std::string(1, static_cast<char>(code)),
                   "no request has the code " + std::to_string(code));
  }
  expect_refused(greeting(), "validate for a second time");
}

TEST_F(HostileClientsTest, AddToTextIsRefused) {
  Client client = greeted_client();
  client.send(frame(RequestCode::kSet, text("k") + text("no number")) +
              frame(RequestCode::kAdd, text("k") + bytes_of<std::int64_t>(1)));
  EXPECT_TRUE(client.is_closed_by_peer());
  EXPECT_TRUE(greeted_client().round_trip());
}

// Every length of every request, up to 2^64 - 1, without the bytes that it announces.
TEST_F(HostileClientsTest, LengthBeyondItsLimitIsRefusedAtOnce) {
  for (const RequestSpec& spec : kRequests) {
    std::string before(1, static_cast<char>(spec.code));
    for (const Field field : spec.fields) {
      std::uint64_t limit = 0;
      std::string valid;
      switch (field) {
        case Field::kKey:
          limit = StoreLimits().key_bytes_max;
          valid = text("k");
          break;
        case Field::kValue:
          limit = StoreLimits().value_bytes_max;
          valid = text("v");
          break;
        case Field::kKeys:
        case Field::kEntries:
          limit = StoreLimits().keys_max;
          break;
        case Field::kNone:
        case Field::kInt64:
        case Field::kUint32:
          continue;
      }
      for (const std::uint64_t length : {limit + 1, std::uint64_t{1} << 32, std::uint64_t{1} << 63,
                                         std::numeric_limits<std::uint64_t>::max()}) {
        SCOPED_TRACE(spec.name);
        expect_refused(before + bytes_of(length), std::to_string(length));
      }
      before += valid;
    }
  }
}

TEST_F(HostileClientsTest, RequestOfManyLargeKeysIsRefusedBeforeItsEnd) {
  stop();
  start({.limits = {.request_bytes_max = 100'000}});
  std::string request = frame(RequestCode::kWait, bytes_of<std::uint64_t>(1000));
  for (int i = 0; i < 20; ++i) request += text(std::string(8 * kKiB, 'k'));
  expect_refused(request, "wait with more than 100000 bytes in all");
}

TEST_F(HostileClientsTest, TruncatedRequestChangesNothing) {
  Client other = greeted_client();
  for (const std::string& half : {frame(RequestCode::kSet, text("k") + text("value")),
                                  frame(RequestCode::kAppend, text("k") + text("value"))}) {
    Client client = greeted_client();
    ASSERT_TRUE(client.round_trip());
    client.send(std::string_view(half).substr(0, half.size() - 1));
    client.end_sending();
    EXPECT_TRUE(client.is_closed_by_peer());
  }
  other.send(frame(RequestCode::kGetNumKeys));
  EXPECT_EQ(other.receive(8), bytes_of<std::int64_t>(0));
}

TEST_F(HostileClientsTest, RequestSentByteByByteIsServed) {
  Client client = greeted_client();
  const std::string requests =
      frame(RequestCode::kMultiSet,
            bytes_of<std::uint64_t>(2) + text("a") + text("1") + text("b") + text("2")) +
      frame(RequestCode::kCompareSet, text("a") + text("1") + text("3")) +
      frame(RequestCode::kMultiGet, bytes_of<std::uint64_t>(2) + text("a") + text("b"));
  for (const char byte : requests) ASSERT_TRUE(client.send({&byte, 1}));
  EXPECT_EQ(client.receive(3 * 9), text("3") + text("3") + text("2"));
}

// The client asks for a thousand replies of 1 MiB. Without the bound the server would create them
// all before it serves another client.
TEST_F(HostileClientsTest, ClientThatDoesNotReadIsPausedAndDelaysNoOther) {
  stop();
  start({.limits = {.unread_bytes_max = 1 * kMiB}});
  const std::string value(1 * kMiB, 'x');
  Client slow = greeted_client();
  slow.send(frame(RequestCode::kSet, text("k") + text(value)));
  std::string requests;
  for (int i = 0; i < 1000; ++i) requests += frame(RequestCode::kGet, text("k"));
  slow.send(requests + frame(RequestCode::kSet, text("end") + text("reached")));

  Client other = greeted_client();
  ASSERT_TRUE(other.round_trip());
  other.send(frame(RequestCode::kCheck, bytes_of<std::uint64_t>(1) + text("end")));
  EXPECT_EQ(other.receive(1), std::string(1, '\1')) << "all requests have been applied";

  // Once it reads, it gets all replies.
  other.send(frame(RequestCode::kWait, bytes_of<std::uint64_t>(1) + text("end")));
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(slow.receive(8 + value.size()), text(value)) << i;
  EXPECT_EQ(other.receive(1), std::string(1, '\0'));
}

TEST_F(HostileClientsTest, ClientThatDiesWhileItWaitsIsForgotten) {
  {
    Client leaving = greeted_client();
    leaving.send(frame(RequestCode::kWait, bytes_of<std::uint64_t>(1) + text("k")));
  }
  Client staying = greeted_client();
  ASSERT_TRUE(staying.round_trip());
  EXPECT_TRUE(comes_to([&] { return server_->connection_count() == 1; }));
  EXPECT_EQ(see([&] { return table().waiting_count(); }), 0u);
  staying.send(frame(RequestCode::kSet, text("k") + text("v")));
  EXPECT_TRUE(staying.round_trip());
}

// A pushed value must wake a client that is alive.
TEST_F(HostileClientsTest, DeadClientTakesNothingFromAQueue) {
  const auto wait = frame(RequestCode::kWait, bytes_of(kOneKey) + text("q"));
  auto dying = std::make_unique<Client>(greeted_client());
  dying->send(wait);
  ASSERT_TRUE(comes_to([&] { return table().waiting_count() == 1; }));
  Client waiting = greeted_client(), pushing = greeted_client();
  waiting.send(wait);
  ASSERT_TRUE(comes_to([&] { return table().waiting_count() == 2; }));
  dying.reset();
  ASSERT_TRUE(comes_to([&] { return table().waiting_count() == 1; }));
  pushing.send(frame(RequestCode::kQueuePush, text("q") + text("v")));
  EXPECT_EQ(waiting.receive(1), std::string(1, '\0'));
}

TEST_F(HostileClientsTest, ConnectionBeyondTheLimitIsClosedAndTheOthersStay) {
  stop();
  start({.limits = {.connections_max = 3}});
  std::vector<Client> clients;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(greeted_client());
    ASSERT_TRUE(clients.back().round_trip());
  }
  EXPECT_TRUE(Client(port_).is_closed_by_peer());
  EXPECT_EQ(last_reason(), "3 connections are open: no more are allowed");
  for (Client& client : clients) EXPECT_TRUE(client.round_trip());
  clients.pop_back();
  ASSERT_TRUE(comes_to([&] { return server_->connection_count() == 2; }));
  EXPECT_TRUE(greeted_client().round_trip());
}

TEST_F(HostileClientsTest, FullStoreRefusesAdditionsAndServesReads) {
  stop();
  start({.limits = {.memory_bytes_max = 1 * kMiB}});
  const std::string value(100 * kKiB, 'x');
  Client reader = greeted_client(), writer = greeted_client();
  ASSERT_TRUE(reader.round_trip());
  for (int i = 0; i < 20; ++i) {
    writer.send(frame(RequestCode::kSet, text("k" + std::to_string(i)) + text(value)));
  }
  EXPECT_TRUE(writer.is_closed_by_peer());
  EXPECT_THAT(last_reason(), HasSubstr("the store is full"));
  EXPECT_LE(see([&] { return table().bytes(); }), 1 * kMiB);
  reader.send(frame(RequestCode::kGet, text("k0")));
  EXPECT_EQ(reader.receive(8 + value.size()), text(value));
  for (int i = 0; i < 20; ++i) {
    reader.send(frame(RequestCode::kDeleteKey, text("k" + std::to_string(i))));
  }
  reader.receive(20 * 8);
  EXPECT_EQ(see([&] { return table().bytes(); }), 0u);
  reader.send(frame(RequestCode::kSet, text("k") + text(value)));
  EXPECT_TRUE(reader.round_trip()) << "there is room again";
}

TEST_F(HostileClientsTest, EveryStoredItemCountsAgainstTheMemory) {
  const std::string large(8 * kKiB, 'x');
  const std::map<std::string, std::function<std::string(int)>> growths = {
      {"set",
       [&](int i) { return frame(RequestCode::kSet, text(std::to_string(i)) + text(large)); }},
      {"append", [&](int) { return frame(RequestCode::kAppend, text("k") + text(large)); }},
      {"compare_set",
       [&](int i) {
         return frame(RequestCode::kCompareSet, text(std::to_string(i)) + text("") + text(large));
       }},
      {"multi_set",
       [&](int i) {
         return frame(RequestCode::kMultiSet,
                      bytes_of(kOneKey) + text(std::to_string(i)) + text(large));
       }},
      {"queue_push", [&](int) { return frame(RequestCode::kQueuePush, text("q") + text(large)); }},
      {"queue_push of many",
       [&](int i) { return frame(RequestCode::kQueuePush, text(std::to_string(i)) + text("")); }},
      {"add",
       [&](int i) {
         return frame(RequestCode::kAdd,
                      text(std::to_string(i) + large.substr(0, 8000)) + bytes_of<std::int64_t>(1));
       }},
      {"barrier",
       [&](int i) {
         return frame(RequestCode::kBarrier,
                      text(std::to_string(i) + large.substr(0, 8000)) + bytes_of<std::int64_t>(2));
       }},
  };
  for (const auto& [name, request] : growths) {
    SCOPED_TRACE(name);
    stop();
    start({.limits = {.memory_bytes_max = 256 * kKiB}});
    Client client = greeted_client();
    bool open = true;
    for (int i = 0; open && i < 1000; ++i) open = client.send(request(i));
    while (!client.receive(1000).empty()) {
    }
    EXPECT_TRUE(client.is_closed_by_peer());
    EXPECT_THAT(last_reason(), HasSubstr("is full"));
    EXPECT_LE(see([&] { return table().bytes(); }), 256 * kKiB);
  }
}

TEST_F(HostileClientsTest, WaitsCountAgainstTheMemory) {
  stop();
  start({.limits = {.memory_bytes_max = 256 * kKiB}});
  std::string keys = bytes_of<std::uint64_t>(100);
  for (int i = 0; i < 100; ++i) keys += text(std::to_string(i) + std::string(500, 'k'));
  std::vector<Client> clients;
  for (int i = 0; i < 10 && last_reason().empty(); ++i) {
    clients.push_back(greeted_client());
    clients.back().send(frame(RequestCode::kWait, keys));
    ASSERT_TRUE(comes_to([&] {
      return table().waiting_count() == clients.size() || !server_->status().closed.empty();
    }));
    EXPECT_LE(see([&] { return table().bytes(); }), 256 * kKiB);
  }
  EXPECT_THAT(last_reason(), HasSubstr("the store is full"));
  clients.clear();
  EXPECT_TRUE(comes_to([&] { return table().bytes() == 0; }));
}

// Each client sends all of a large value except its last byte.
TEST_F(HostileClientsTest, IncompleteRequestsCountAgainstTheMemory) {
  stop();
  start({.limits = {.memory_bytes_max = 8 * kMiB}});
  const std::string part = frame(RequestCode::kSet, text("k") + text(std::string(kMiB, 'x')));
  std::vector<Client> clients;
  for (int i = 0; i < 20; ++i) {
    clients.push_back(greeted_client());
    clients.back().send(std::string_view(part).substr(0, part.size() - 1));
    EXPECT_LE(bytes(), 8 * kMiB + 128 * kKiB);
  }
  EXPECT_TRUE(comes_to([&] { return !server_->status().closed.empty(); }));
  EXPECT_THAT(last_reason(), HasSubstr("the store is full"));
  Client other = greeted_client();
  EXPECT_TRUE(other.round_trip()) << "small requests are served";
  clients.clear();
  EXPECT_TRUE(comes_to([&] { return server_->connection_count() == 1; }));
  EXPECT_LE(bytes(), 16 * kKiB);
}

TEST_F(HostileClientsTest, UnreadAnswersCountAgainstTheMemory) {
  stop();
  start({.limits = {.unread_bytes_max = 4 * kMiB, .memory_bytes_max = 16 * kMiB}});
  Client good = greeted_client();
  good.send(frame(RequestCode::kSet, text("k") + text(std::string(1 * kMiB, 'x'))));
  ASSERT_TRUE(good.round_trip());
  std::string requests;
  for (int i = 0; i < 100; ++i) requests += frame(RequestCode::kGet, text("k"));
  std::vector<Client> clients;
  for (int i = 0; i < 20; ++i) {
    clients.push_back(greeted_client());
    clients.back().send(requests);
    EXPECT_LE(bytes(), 16 * kMiB + 8 * kMiB);
    EXPECT_TRUE(good.round_trip());
  }
  EXPECT_TRUE(comes_to([&] { return !server_->status().closed.empty(); }));
  EXPECT_THAT(last_reason(), HasSubstr("the store is full"));
}

// An empty key costs eight bytes on the wire, and more while its request is parsed.
TEST_F(HostileClientsTest, ListsOfManyKeysCountAgainstTheMemory) {
  stop();
  start({.limits = {.memory_bytes_max = 16 * kMiB}});
  std::string keys = bytes_of<std::uint64_t>(100'000);
  for (int i = 0; i < 100'000; ++i) keys += text("");
  std::vector<Client> clients;
  for (int i = 0; i < 10; ++i) {
    clients.push_back(greeted_client());
    clients.back().send(frame(RequestCode::kCheck, keys));
    EXPECT_EQ(clients.back().receive(1), std::string(1, kNotAllThere));
    EXPECT_TRUE(comes_to([&] { return server_->status().bytes <= 64 * kKiB; }))
        << "the memory of the list is freed";
  }
  for (int i = 0; i < 20; ++i) {
    clients.push_back(greeted_client());
    clients.back().send(frame(RequestCode::kCheck, keys.substr(0, keys.size() - 1)));
    EXPECT_LE(bytes(), 16 * kMiB + 4 * kMiB);
  }
  EXPECT_TRUE(comes_to([&] { return !server_->status().closed.empty(); }));
  EXPECT_THAT(last_reason(), HasSubstr("the store is full"));
}

TEST_F(HostileClientsTest, BuffersAndKeysCountTogether) {
  stop();
  start({.limits = {.memory_bytes_max = 8 * kMiB}});
  const std::string part = frame(RequestCode::kSet, text("k") + text(std::string(kMiB, 'x')));
  std::vector<Client> clients;
  for (int i = 0; i < 4; ++i) {
    clients.push_back(greeted_client());
    clients.back().send(std::string_view(part).substr(0, part.size() - 1));
  }
  ASSERT_TRUE(comes_to([&] { return server_->status().bytes >= 4 * kMiB; }));
  Client writer = greeted_client();
  bool open = true;
  for (int i = 0; open && i < 10'000; ++i) {
    open = writer.send(
        frame(RequestCode::kSet, text(std::to_string(i)) + text(std::string(kKiB, 'v'))));
  }
  EXPECT_TRUE(writer.is_closed_by_peer());
  EXPECT_LE(bytes(), 8 * kMiB + 128 * kKiB);
  EXPECT_GE(bytes(), 6 * kMiB) << "it was refused when there was no room";
}

TEST_F(HostileClientsTest, FullStoreLetsClientsWaitForExistingKeys) {
  stop();
  start({.limits = {.memory_bytes_max = 64 * kKiB}});
  Client reader = greeted_client(), writer = greeted_client();
  ASSERT_TRUE(reader.round_trip());
  writer.send(frame(RequestCode::kSet, text("k") + text("value")));
  // Fills the store until even a key without a value does not fit.
  for (int i = 0; i < 10'000 && writer.round_trip(); ++i) {
    writer.send(frame(RequestCode::kSet, text(std::to_string(i)) + text("")));
  }
  EXPECT_THAT(last_reason(), HasSubstr("set, and the store is full"));
  // As torch's clients do in get().
  std::string many = bytes_of<std::uint64_t>(101) + text("k");
  for (int i = 0; i < 100; ++i) many += text(std::to_string(i));
  reader.send(frame(RequestCode::kWait, many));
  EXPECT_EQ(reader.receive(1), std::string(1, kStopWaiting));
  reader.send(frame(RequestCode::kGet, text("k")));
  EXPECT_EQ(reader.receive(13), text("value"));
  reader.send(frame(RequestCode::kWait, bytes_of(kOneKey) + text(std::string(kKiB, 'm'))));
  EXPECT_TRUE(reader.is_closed_by_peer());
}

TEST_F(HostileClientsTest, ManyRequestsAtOnceDoNotDelayOthers) {
  constexpr std::size_t kRequests = 500;
  std::string requests;
  for (std::size_t i = 0; i < kRequests; ++i) {
    requests +=
        frame(RequestCode::kStatus) + frame(RequestCode::kSet, text(std::to_string(i)) + text(""));
  }
  // Counts how often another handler gets a turn on the server's thread.
  std::set<std::size_t> seen;
  const std::function<void()> look = [&] {
    seen.insert(table().key_count());
    if (table().key_count() < kRequests) boost::asio::post(io_, look);
  };
  Client hostile = greeted_client();
  ASSERT_TRUE(hostile.round_trip());
  boost::asio::post(io_, look);
  hostile.send(requests);
  ASSERT_TRUE(comes_to([&] { return seen.contains(kRequests); }));
  EXPECT_GT(seen.size(), kRequests / 2);
}

TEST_F(HostileClientsTest, MillionKeysAreStoredOrRefusedAsTheMemoryAllows) {
  constexpr int kBatches = 100, kBatch = 10'000;
  const auto batch = [](int number) {
    std::string entries = bytes_of<std::uint64_t>(kBatch);
    for (int i = 0; i < kBatch; ++i) {
      entries += text("key/" + std::to_string(number * kBatch + i)) + text(std::string(64, 'v'));
    }
    return frame(RequestCode::kMultiSet, entries);
  };
  Client client = greeted_client();
  for (int i = 0; i < kBatches; ++i) ASSERT_TRUE(client.send(batch(i)));
  client.send(frame(RequestCode::kGetNumKeys));
  EXPECT_EQ(client.receive(8), bytes_of<std::int64_t>(kBatches * kBatch));
  EXPECT_LE(see([&] { return table().bytes(); }), 172u * kBatches * kBatch);

  stop();
  start({.limits = {.memory_bytes_max = 64 * kMiB}});
  Client greedy = greeted_client(), other = greeted_client();
  bool open = true;
  for (int i = 0; open && i < kBatches; ++i) open = greedy.send(batch(i));
  EXPECT_TRUE(greedy.is_closed_by_peer());
  EXPECT_LE(see([&] { return table().bytes(); }), 64 * kMiB);
  EXPECT_TRUE(other.round_trip());
}

// For a client that runs as `uid`: 0 if it is served, 1 if its connection is closed.
int outcome_for(uid_t uid, std::uint16_t port) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setresuid(uid, uid, uid) != 0) ::_exit(2);
    Client client(port);
    client.send(greeting());
    ::_exit(client.round_trip() ? 0 : 1);
  }
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST_F(HostileClientsTest, AnotherUserIsRefusedIfSameUserIsSet) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can be another user";
  constexpr uid_t kNobody = 65534;
  EXPECT_EQ(outcome_for(kNobody, port_), 0);
  stop();
  start({.same_user = true});
  EXPECT_EQ(outcome_for(kNobody, port_), 1);
  EXPECT_THAT(last_reason(), HasSubstr("it belongs to uid 65534"));
  EXPECT_EQ(outcome_for(0, port_), 0);
  EXPECT_TRUE(greeted_client().round_trip());
}

// The client has left before the server looks: a socket that no process holds has no user.
TEST_F(HostileClientsTest, ClientThatHasLeftIsRefusedIfSameUserIsSet) {
  stop();
  start({.same_user = true});
  // Blocks the server's thread while the client connects and leaves.
  std::promise<void> go_on;
  boost::asio::post(io_, [held = go_on.get_future().share()] { held.wait(); });
  {
    Client client = greeted_client();
    client.send(frame(RequestCode::kSet, text("k") + text("v")));
  }
  go_on.set_value();
  EXPECT_TRUE(comes_to([&] { return !server_->status().closed.empty(); }));
  EXPECT_EQ(last_reason(), "it is not a running process of this machine");
  EXPECT_EQ(see([&] { return table().key_count(); }), 0u);
}

}  // namespace
}  // namespace distrun
