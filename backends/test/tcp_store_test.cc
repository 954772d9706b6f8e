// Tests StoreServer with LibTorch's client, c10d::TCPStore.
#include <future>
#include <thread>

#include <boost/asio/post.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "common/units.h"
#include "distrun/store_server.h"

namespace distrun {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;
using Bytes = std::vector<uint8_t>;

Bytes bytes(std::string_view text) { return {text.begin(), text.end()}; }

class TcpStoreTest : public ::testing::Test {
 protected:
  TcpStoreTest()
      : server_(StoreServer::listen(io_, {}).value()),
        port_(server_->port()),
        thread_([this] { io_.run(); }) {}

  ~TcpStoreTest() override {
    boost::asio::post(io_, [this] { server_.reset(); });
    thread_.join();
  }

  c10::intrusive_ptr<c10d::TCPStore> client() {
    c10d::TCPStoreOptions options;
    options.port = port_;
    options.waitWorkers = false;
    options.timeout = std::chrono::seconds(10);
    return c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
  }

  // Whether a client waits in the table within ten seconds.
  bool somebody_waits() {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (std::chrono::steady_clock::now() < deadline) {
      std::promise<bool> waits;
      boost::asio::post(io_, [&] { waits.set_value(server_->status().waiting > 0); });
      if (waits.get_future().get()) return true;
    }
    return false;
  }

  boost::asio::io_context io_;
  std::unique_ptr<StoreServer> server_;
  std::uint16_t port_;
  std::thread thread_;
};

TEST_F(TcpStoreTest, SupportsSetGetAddAndDelete) {
  const auto store = client();
  store->set("k", bytes("value"));
  EXPECT_EQ(store->get("k"), bytes("value"));
  EXPECT_EQ(store->add("n", 5), 5);
  EXPECT_EQ(store->add("n", -2), 3);
  EXPECT_EQ(store->get("n"), bytes("3"));
  EXPECT_TRUE(store->check({"k", "n"}));
  EXPECT_FALSE(store->check({"k", "none"}));
  EXPECT_EQ(store->getNumKeys(), 2);
  EXPECT_TRUE(store->deleteKey("k"));
  EXPECT_FALSE(store->deleteKey("k"));
  EXPECT_THAT(store->listKeys(), UnorderedElementsAre("n"));
}

TEST_F(TcpStoreTest, SupportsCompareSetAndListForms) {
  const auto store = client();
  EXPECT_EQ(store->compareSet("k", {}, bytes("a")), bytes("a"));
  EXPECT_EQ(store->compareSet("k", bytes("x"), bytes("b")), bytes("a"));
  EXPECT_EQ(store->compareSet("k", bytes("a"), bytes("b")), bytes("b"));
  store->multiSet({"m1", "m2"}, {bytes("1"), bytes("")});
  store->append("m1", bytes("+"));
  EXPECT_THAT(store->multiGet({"m2", "m1"}), ElementsAre(bytes(""), bytes("1+")));
}

TEST_F(TcpStoreTest, GetWaitsForAnotherClient) {
  const auto waiting = client(), setting = client();
  auto got = std::async(std::launch::async, [&] { return waiting->get("later"); });
  ASSERT_TRUE(somebody_waits());
  setting->set("later", bytes("here"));
  EXPECT_EQ(got.get(), bytes("here"));
}

TEST_F(TcpStoreTest, WaitThatTimesOutLeavesTheClientUsable) {
  const auto store = client();
  EXPECT_ANY_THROW(store->wait({"never"}, milliseconds(50)));
  store->set("never", bytes("now"));
  EXPECT_EQ(store->get("never"), bytes("now"));
}

TEST_F(TcpStoreTest, QueuesPassValuesBetweenClients) {
  const auto pushing = client(), popping = client();
  auto popped = std::async(std::launch::async, [&] { return popping->queuePop("q", true); });
  ASSERT_TRUE(somebody_waits());
  pushing->queuePush("q", bytes("1"));
  EXPECT_EQ(popped.get(), bytes("1"));
  EXPECT_EQ(pushing->queueLen("q"), 0);
  EXPECT_ANY_THROW(popping->queuePop("q", false));
}

TEST_F(TcpStoreTest, SupportsPrefixStores) {
  const auto store = client();
  const auto prefixed = c10::make_intrusive<c10d::PrefixStore>("default_pg", store);
  prefixed->set("k", bytes("1"));
  EXPECT_EQ(store->get("default_pg/k"), bytes("1"));
}

TEST_F(TcpStoreTest, StoresValuesOfEightMebibytes) {
  const auto store = client();
  const Bytes value(8 * kMiB, 'x');
  store->set("k", value);
  EXPECT_EQ(store->get("k"), value);
}

}  // namespace
}  // namespace distrun
