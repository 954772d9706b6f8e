#include "distrun/store_client.h"

#include <boost/asio/read.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "distrun/store_status.h"
#include "store/test/served_store.h"

namespace distrun {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

class StoreClientTest : public testing::StoreServerTest {
 protected:
  StoreClient client() { return StoreClient::connect({"127.0.0.1", port_}, seconds(10)).value(); }
};

TEST_F(StoreClientTest, SendsEachRequestAndReadsItsAnswer) {
  StoreClient store = client(), other = client();
  const std::string binary("\0\xFF\n", 3);
  ASSERT_TRUE(store.set("k", binary));
  EXPECT_EQ(other.get("k").value(), binary);
  EXPECT_EQ(other.get("none").value(), std::nullopt);
  ASSERT_TRUE(store.set("empty", ""));
  EXPECT_EQ(other.get("empty").value(), "");
  ASSERT_TRUE(store.append("k", "more"));
  EXPECT_EQ(other.get("k").value(), binary + "more");
  EXPECT_EQ(store.add("n", 5).value(), 5);
  EXPECT_EQ(other.add("n", -7).value(), -2);
  EXPECT_EQ(store.compare_set("c", "", "first").value(), "first");
  EXPECT_EQ(other.compare_set("c", "", "second").value(), "first");
  EXPECT_EQ(other.compare_set("c", "first", "second").value(), "second");
  EXPECT_TRUE(store.check({"k", "n"}).value());
  EXPECT_FALSE(store.check({"k", "none"}).value());
  EXPECT_THAT(store.keys().value(), UnorderedElementsAre("k", "empty", "n", "c"));
  EXPECT_TRUE(store.delete_key("k").value());
  EXPECT_FALSE(store.delete_key("k").value());
  EXPECT_EQ(store_status_from_json(store.status().value()).value().connections, 2u);
}

TEST_F(StoreClientTest, WaitsForKeysAndAtBarriers) {
  StoreClient store = client();
  auto waits = std::async(std::launch::async, [&] {
    StoreClient waiting = client();
    return waiting.wait({"a", "b"}, seconds(10)) && waiting.barrier("all", 2, seconds(10));
  });
  ASSERT_TRUE(comes_to([&] { return table().waiting_count() == 1; }));
  ASSERT_TRUE(store.set("a", ""));
  ASSERT_TRUE(store.set("b", ""));
  EXPECT_TRUE(store.barrier("all", 2, seconds(10)));
  EXPECT_TRUE(waits.get());
}

TEST_F(StoreClientTest, WaitsWithoutTimeOut) {
  StoreClient store = client();
  auto waits = std::async(std::launch::async, [&] {
    StoreClient waiting = client();
    return waiting.wait({"a"}, std::nullopt) && waiting.barrier("all", 2, std::nullopt);
  });
  ASSERT_TRUE(comes_to([&] { return table().waiting_count() == 1; }));
  ASSERT_TRUE(store.set("a", ""));
  EXPECT_TRUE(store.barrier("all", 2, seconds(10)));
  EXPECT_TRUE(waits.get());
}

TEST_F(StoreClientTest, LongestTimeOutDoesNotOverflow) {
  constexpr auto kLongest = milliseconds::max();
  auto store = StoreClient::connect({"127.0.0.1", port_}, kLongest, kLongest);
  ASSERT_TRUE(store);
  auto waits = std::async(std::launch::async, [&] { return store->wait({"a"}, kLongest); });
  ASSERT_TRUE(comes_to([&] { return table().waiting_count() == 1; }));
  ASSERT_TRUE(client().set("a", ""));
  EXPECT_TRUE(waits.get());
}

TEST_F(StoreClientTest, ConnectionIsUsableAfterATimeOut) {
  StoreClient store = client();
  const auto waited = store.wait({"never"}, milliseconds(20));
  ASSERT_TRUE(waited.has_error());
  EXPECT_EQ(waited.error().kind, ErrorKind::kTimedOut);
  const auto met = store.barrier("b", 2, milliseconds(0));
  ASSERT_TRUE(met.has_error());
  EXPECT_EQ(met.error().kind, ErrorKind::kTimedOut);
  EXPECT_EQ(see([&] { return table().waiting_count(); }), 0u);
  ASSERT_TRUE(store.set("there", ""));
  EXPECT_TRUE(store.wait({"there"}, milliseconds(0))) << "an existing key is seen without waiting";
}

TEST_F(StoreClientTest, RetriesToConnectUntilTheTimeOut) {
  const auto port = port_;
  stop();
  const auto refused = StoreClient::connect({"127.0.0.1", port}, milliseconds(0));
  ASSERT_TRUE(refused.has_error());
  EXPECT_EQ(refused.error().message,
            "store at 127.0.0.1:" + std::to_string(port) + ": connection refused");
  auto connects = std::async(std::launch::async, [&] {
    return StoreClient::connect({"127.0.0.1", port}, seconds(10)).has_value();
  });
  start({.port = port});
  EXPECT_TRUE(connects.get());
}

// The client's error, without the address, if its server answers the greeting with `bytes` and
// closes the connection, or never answers if `bytes` is empty.
std::string opinion_of(const std::string& bytes) {
  using boost::asio::ip::tcp;
  boost::asio::io_context io;
  tcp::acceptor acceptor(io, {boost::asio::ip::make_address("127.0.0.1"), 0});
  auto answers = std::async(std::launch::async, [&] {
    tcp::socket socket = acceptor.accept();
    std::array<char, 10> greeting;
    boost::asio::read(socket, boost::asio::buffer(greeting));
    socket.send(boost::asio::buffer(bytes));
    boost::system::error_code error;
    if (bytes.empty()) socket.receive(boost::asio::buffer(greeting), 0, error);  // Until it closes.
  });
  const auto patience = bytes.empty() ? milliseconds(50) : milliseconds(10'000);
  const auto store = StoreClient::connect({"127.0.0.1", acceptor.local_endpoint().port()},
                                          milliseconds(0), patience);
  if (store) return "a store";
  const std::string name = "store at 127.0.0.1:" + std::to_string(acceptor.local_endpoint().port());
  EXPECT_THAT(store.error().message, StartsWith(name));
  return store.error().message.substr(name.size());
}

TEST(StoreClientOfOthersTest, ReportsServersThatAreNotStores) {
  EXPECT_EQ(opinion_of(""), " does not answer");
  EXPECT_EQ(opinion_of("HTTP/1.1 400 Bad Request\r\n"), ": the server there is not a store");
  EXPECT_THAT(opinion_of("x"), HasSubstr("closed the connection"));
}

// A timed-out wait leaves the connection usable, unless the store does not confirm the
// cancellation.
TEST_F(StoreClientTest, UnansweredCancellationBreaksTheConnection) {
  auto store = StoreClient::connect({"127.0.0.1", port_}, seconds(10), milliseconds(50)).value();
  std::promise<void> go_on;
  boost::asio::post(io_, [held = go_on.get_future().share()] { held.wait(); });
  const auto waited = store.wait({"never"}, milliseconds(20));
  go_on.set_value();
  ASSERT_TRUE(waited.has_error());
  EXPECT_EQ(waited.error().kind, ErrorKind::kSystem);
  EXPECT_THAT(waited.error().message, HasSubstr("does not answer"));
  // A late answer would be taken for the next request's.
  const auto checked = store.check({"missing"});
  ASSERT_TRUE(checked.has_error());
  EXPECT_THAT(checked.error().message, HasSubstr("the connection failed earlier"));
}

TEST_F(StoreClientTest, ResolvesHostNames) {
  EXPECT_TRUE(StoreClient::connect({"localhost", port_}, seconds(10)));
  const auto unknown = StoreClient::connect({"nowhere.invalid", port_}, seconds(10));
  ASSERT_TRUE(unknown.has_error());
  EXPECT_THAT(unknown.error().message, HasSubstr("store at nowhere.invalid:"));
}

TEST_F(StoreClientTest, WaitFailsWhenTheStoreExits) {
  StoreClient store = client();
  auto waits = std::async(std::launch::async, [&] { return store.wait({"never"}, seconds(60)); });
  ASSERT_TRUE(comes_to([&] { return table().waiting_count() == 1; }));
  stop();
  const auto waited = waits.get();
  ASSERT_TRUE(waited.has_error());
  EXPECT_EQ(waited.error().kind, ErrorKind::kProtocol);
  EXPECT_THAT(waited.error().message, HasSubstr("closed the connection"));
}

TEST(StoreAddressTest, ParsesHostAndPort) {
  EXPECT_EQ(parse_store_address("127.0.0.1:29500").value().text(), "127.0.0.1:29500");
  EXPECT_EQ(parse_store_address("node7:1").value().host, "node7");
  EXPECT_EQ(parse_store_address("[::1]:65535").value().host, "::1");
  EXPECT_EQ(parse_store_address("[::1]:65535").value().text(), "[::1]:65535");
  for (const char* text : {"", ":", "host", "host:", ":1", "[]:1", "host:0", "host:65536",
                           "host:-1", "host:1x", "::1:29500"}) {
    const auto address = parse_store_address(text);
    ASSERT_TRUE(address.has_error()) << text;
    EXPECT_EQ(address.error().kind, ErrorKind::kInvalidArgument);
  }
}

}  // namespace
}  // namespace distrun
