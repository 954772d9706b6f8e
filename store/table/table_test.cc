#include "store/table/table.h"

#include <map>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include "store/protocol/request_parser.h"
#include "store/test/frames.h"

namespace distrun {
namespace {

using testing::bytes_of;
using testing::frame;
using testing::greeting;
using ::testing::HasSubstr;
using testing::text;

constexpr PeerId kAlice = 1, kBob = 2, kCarol = 3;
const std::string kStopWaitingReply("\0", 1), kWaitCanceledReply("\1", 1);
const std::string kReady("\0", 1), kNotReady("\1", 1);

// A table, and peers that send frames.
class StoreTableTest : public ::testing::Test, private ReplySink {
 protected:
  // The bytes sent to `peer` since the last call.
  std::string sent_to(PeerId peer) { return std::exchange(replies_[peer], ""); }

  // Sends a request and returns its immediate answer.
  std::string ask(PeerId peer, RequestCode code, const std::string& fields = "") {
    EXPECT_EQ(failure(peer, code, fields), "");
    return sent_to(peer);
  }

  std::string failure(PeerId peer, RequestCode code, const std::string& fields) {
    StoreRequestParser parser;
    EXPECT_GT(parser.next(greeting()).value(), 0u);
    const std::string bytes = frame(code, fields);
    EXPECT_EQ(parser.next(bytes).value(), bytes.size());
    const auto applied = table_.apply(peer, parser.request(), *this);
    return applied ? "" : applied.error().message;
  }

  static std::string keys(std::initializer_list<std::string_view> names) {
    std::string fields = bytes_of<std::uint64_t>(names.size());
    for (const auto name : names) fields += text(name);
    return fields;
  }

  StoreTable table_;

 private:
  std::string& replies_to(PeerId peer) override { return replies_[peer]; }
  std::map<PeerId, std::string> replies_;
};

TEST_F(StoreTableTest, CountsChangesButNotReads) {
  ask(kAlice, RequestCode::kSet, text("a") + text("1"));
  EXPECT_EQ(table_.changes(), 1U);
  ask(kAlice, RequestCode::kAdd, text("n") + bytes_of<std::int64_t>(1));
  EXPECT_EQ(table_.changes(), 2U);
  ask(kAlice, RequestCode::kAppend, text("a") + text("2"));
  EXPECT_EQ(table_.changes(), 3U);
  ask(kAlice, RequestCode::kQueuePush, text("q") + text("1"));
  EXPECT_EQ(table_.changes(), 4U);
  ask(kAlice, RequestCode::kGet, text("a"));
  ask(kAlice, RequestCode::kCheck, keys({"a", "b"}));
  ask(kAlice, RequestCode::kAdd, text("n") + bytes_of<std::int64_t>(0));
  ask(kAlice, RequestCode::kSet, text("a") + text("12"));
  EXPECT_EQ(table_.changes(), 4U);
}

TEST_F(StoreTableTest, SetAnswersNothingAndGetAnswersTheValue) {
  EXPECT_EQ(ask(kAlice, RequestCode::kSet, text("k") + text("value")), "");
  EXPECT_EQ(ask(kBob, RequestCode::kGet, text("k")), text("value"));
  EXPECT_EQ(ask(kBob, RequestCode::kGet, text("missing")), text(""));
}

TEST_F(StoreTableTest, AddCountsInDecimalText) {
  EXPECT_EQ(ask(kAlice, RequestCode::kAdd, text("n") + bytes_of<std::int64_t>(5)),
            bytes_of<std::int64_t>(5));
  EXPECT_EQ(ask(kBob, RequestCode::kAdd, text("n") + bytes_of<std::int64_t>(-7)),
            bytes_of<std::int64_t>(-2));
  EXPECT_EQ(ask(kAlice, RequestCode::kGet, text("n")), text("-2"));
}

TEST_F(StoreTableTest, AddToTextFailsAndChangesNothing) {
  for (const char* value : {"", "abc", " ", "+", "+-1", "9999999999999999999"}) {
    ask(kAlice, RequestCode::kSet, text("k") + text(value));
    EXPECT_EQ(failure(kAlice, RequestCode::kAdd, text("k") + bytes_of<std::int64_t>(1)),
              "add to the key 'k', whose value does not begin with a number");
    EXPECT_EQ(ask(kAlice, RequestCode::kGet, text("k")), text(value));
  }
}

TEST_F(StoreTableTest, AddParsesValuesAsLibTorchsServerDoes) {
  for (const char* value : {"5", " 5", "+5", "\t+5", "5abc"}) {
    ask(kAlice, RequestCode::kSet, text("k") + text(value));
    EXPECT_EQ(ask(kAlice, RequestCode::kAdd, text("k") + bytes_of<std::int64_t>(1)),
              bytes_of<std::int64_t>(6))
        << value;
  }
}

TEST_F(StoreTableTest, RefusesValuesAndRepliesThatAreTooLong) {
  table_ = StoreTable({.value_bytes_max = 8, .reply_bytes_max = 64});
  ask(kAlice, RequestCode::kSet, text("k") + text("12345678"));
  EXPECT_EQ(failure(kAlice, RequestCode::kAppend, text("k") + text("9")),
            "append to the key 'k' would make its value longer than 8 bytes");
  EXPECT_EQ(ask(kAlice, RequestCode::kMultiGet, keys({"k", "k", "k", "k"})).size(), 64u);
  EXPECT_THAT(failure(kAlice, RequestCode::kMultiGet, keys({"k", "k", "k", "k", "k"})),
              HasSubstr("the answer to multi_get would be 80 bytes long"));
  for (int i = 0; i < 7; ++i) {
    ask(kAlice, RequestCode::kSet, text(std::to_string(i)) + text(""));
  }
  EXPECT_THAT(failure(kAlice, RequestCode::kListKeys, ""),
              HasSubstr("list_keys would be 80 bytes"));
}

// As many keys as a request may have; quadratic work would not end.
TEST_F(StoreTableTest, WaitForVeryManyKeysIsFast) {
  const std::size_t many = StoreLimits{}.keys_max;
  std::string fields = bytes_of<std::uint64_t>(many);
  for (std::size_t i = 0; i < many; ++i) fields += text(std::to_string(i));
  EXPECT_EQ(ask(kAlice, RequestCode::kWait, fields), "");
  for (std::size_t i = 0; i < many; ++i) {
    EXPECT_EQ(sent_to(kAlice), "");
    ask(kBob, RequestCode::kSet, text(std::to_string(i)) + text(""));
  }
  EXPECT_EQ(sent_to(kAlice), kStopWaitingReply);
  EXPECT_EQ(table_.waiting_count(), 0u);
}

TEST_F(StoreTableTest, AddThatOverflowsFails) {
  const auto most = std::numeric_limits<std::int64_t>::max();
  ask(kAlice, RequestCode::kAdd, text("n") + bytes_of<std::int64_t>(most));
  EXPECT_EQ(failure(kAlice, RequestCode::kAdd, text("n") + bytes_of<std::int64_t>(1)),
            "add to the key 'n' overflows");
}

TEST_F(StoreTableTest, CompareSetReplacesOnlyWhatIsExpected) {
  const auto compare_set = [&](std::string_view expected, std::string_view wanted) {
    return ask(kAlice, RequestCode::kCompareSet, text("k") + text(expected) + text(wanted));
  };
  EXPECT_EQ(compare_set("old", "new"), text("old"));  // Missing: the expected value, unchanged.
  EXPECT_EQ(table_.key_count(), 0u);
  EXPECT_EQ(compare_set("", "first"), text("first"));
  EXPECT_EQ(compare_set("wrong", "second"), text("first"));
  EXPECT_EQ(compare_set("first", "second"), text("second"));
}

TEST_F(StoreTableTest, WaitIsAnsweredWhenTheLastKeyComes) {
  EXPECT_EQ(ask(kAlice, RequestCode::kWait, keys({"a", "b", "a"})), "");
  EXPECT_EQ(ask(kBob, RequestCode::kWait, keys({"b"})), "");
  ask(kCarol, RequestCode::kSet, text("b") + text(""));
  EXPECT_EQ(sent_to(kAlice), "");
  EXPECT_EQ(sent_to(kBob), kStopWaitingReply);
  ask(kCarol, RequestCode::kAdd, text("a") + bytes_of<std::int64_t>(1));
  EXPECT_EQ(sent_to(kAlice), kStopWaitingReply);
  ask(kCarol, RequestCode::kSet, text("a") + text("again"));
  EXPECT_EQ(sent_to(kAlice), "");
}

TEST_F(StoreTableTest, WaitForExistingKeysIsAnsweredAtOnce) {
  ask(kAlice, RequestCode::kSet, text("a") + text("1"));
  EXPECT_EQ(ask(kAlice, RequestCode::kWait, keys({"a"})), kStopWaitingReply);
  EXPECT_EQ(ask(kAlice, RequestCode::kWait, keys({})), kStopWaitingReply);
}

TEST_F(StoreTableTest, EveryRequestThatCreatesAKeyWakesWaiters) {
  const auto one = bytes_of<std::uint64_t>(1);
  const std::pair<RequestCode, std::string> ways[] = {
      {RequestCode::kSet, text("k0") + text("v")},
      {RequestCode::kCompareSet, text("k1") + text("") + text("v")},
      {RequestCode::kAdd, text("k2") + bytes_of<std::int64_t>(1)},
      {RequestCode::kAppend, text("k3") + text("v")},
      {RequestCode::kMultiSet, one + text("k4") + text("v")},
      {RequestCode::kQueuePush, text("k5") + text("v")},
  };
  int i = 0;
  for (const auto& [code, fields] : ways) {
    const std::string key = "k" + std::to_string(i++);
    EXPECT_EQ(ask(kAlice, RequestCode::kWait, keys({key})), "");
    ask(kBob, code, fields);
    EXPECT_EQ(sent_to(kAlice), kStopWaitingReply) << key;
  }
}

TEST_F(StoreTableTest, CanceledWaitIsNotAnsweredLater) {
  ask(kAlice, RequestCode::kWait, keys({"a"}));
  EXPECT_EQ(ask(kAlice, RequestCode::kCancelWait), kWaitCanceledReply);
  ask(kBob, RequestCode::kSet, text("a") + text("1"));
  EXPECT_EQ(sent_to(kAlice), "");
}

// The client reads both: the answer that crossed its cancellation, and the cancellation's.
TEST_F(StoreTableTest, CancellationAfterTheAnswerIsAnsweredToo) {
  ask(kAlice, RequestCode::kWait, keys({"a"}));
  ask(kBob, RequestCode::kSet, text("a") + text("1"));
  EXPECT_EQ(ask(kAlice, RequestCode::kCancelWait), kStopWaitingReply + kWaitCanceledReply);
}

TEST_F(StoreTableTest, ForgottenPeerIsNotAnswered) {
  ask(kAlice, RequestCode::kWait, keys({"a", "b"}));
  ask(kBob, RequestCode::kWait, keys({"a"}));
  table_.forget(kAlice);
  ask(kCarol, RequestCode::kSet, text("a") + text("1"));
  ask(kCarol, RequestCode::kSet, text("b") + text("1"));
  EXPECT_EQ(sent_to(kAlice), "");
  EXPECT_EQ(sent_to(kBob), kStopWaitingReply);
}

TEST_F(StoreTableTest, CheckSeesKeysAndQueuesWithValues) {
  ask(kAlice, RequestCode::kSet, text("a") + text(""));
  ask(kAlice, RequestCode::kQueuePush, text("q") + text("1"));
  EXPECT_EQ(ask(kAlice, RequestCode::kCheck, keys({"a", "q"})), kReady);
  EXPECT_EQ(ask(kAlice, RequestCode::kCheck, keys({"a", "b"})), kNotReady);
  ask(kAlice, RequestCode::kQueuePop, text("q"));
  EXPECT_EQ(ask(kAlice, RequestCode::kCheck, keys({"q"})), kNotReady);
}

TEST_F(StoreTableTest, KeysAreCountedListedAndDeleted) {
  ask(kAlice, RequestCode::kSet, text("a") + text("1"));
  ask(kAlice, RequestCode::kQueuePush, text("q") + text("1"));  // Queues are not counted.
  EXPECT_EQ(ask(kAlice, RequestCode::kGetNumKeys), bytes_of<std::int64_t>(1));
  EXPECT_EQ(ask(kAlice, RequestCode::kListKeys), bytes_of<std::int64_t>(1) + text("a"));
  EXPECT_EQ(ask(kAlice, RequestCode::kDeleteKey, text("a")), bytes_of<std::int64_t>(1));
  EXPECT_EQ(ask(kAlice, RequestCode::kDeleteKey, text("a")), bytes_of<std::int64_t>(0));
  EXPECT_EQ(ask(kAlice, RequestCode::kGetNumKeys), bytes_of<std::int64_t>(0));
}

TEST_F(StoreTableTest, AppendMultiSetAndMultiGetActOnEachKey) {
  ask(kAlice, RequestCode::kAppend, text("a") + text("x"));
  ask(kAlice, RequestCode::kAppend, text("a") + text("y"));
  ask(kAlice, RequestCode::kMultiSet,
      bytes_of<std::uint64_t>(2) + text("b") + text("1") + text("c") + text("2"));
  EXPECT_EQ(ask(kAlice, RequestCode::kMultiGet, keys({"c", "a", "none", "b"})),
            text("2") + text("xy") + text("") + text("1"));
}

TEST_F(StoreTableTest, PingAnswersItsNumber) {
  EXPECT_EQ(ask(kAlice, RequestCode::kPing, bytes_of<std::uint32_t>(0xDEADBEEF)),
            bytes_of<std::uint32_t>(0xDEADBEEF));
}

TEST_F(StoreTableTest, PopAnswersTheLengthAndTheOldestValue) {
  EXPECT_EQ(ask(kAlice, RequestCode::kQueuePop, text("q")), bytes_of<std::int64_t>(0));
  ask(kAlice, RequestCode::kQueuePush, text("q") + text("1"));
  ask(kAlice, RequestCode::kQueuePush, text("q") + text("2"));
  EXPECT_EQ(ask(kAlice, RequestCode::kQueueLen, text("q")), bytes_of<std::int64_t>(2));
  EXPECT_EQ(ask(kAlice, RequestCode::kQueuePop, text("q")), bytes_of<std::int64_t>(2) + text("1"));
  EXPECT_EQ(ask(kAlice, RequestCode::kQueuePop, text("q")), bytes_of<std::int64_t>(1) + text("2"));
  EXPECT_EQ(ask(kAlice, RequestCode::kQueueLen, text("q")), bytes_of<std::int64_t>(0));
}

TEST_F(StoreTableTest, PushWakesOnePeerOnly) {
  ask(kAlice, RequestCode::kWait, keys({"q", "other"}));
  ask(kBob, RequestCode::kWait, keys({"q"}));
  ask(kCarol, RequestCode::kWait, keys({"q"}));
  ask(9, RequestCode::kQueuePush, text("q") + text("1"));
  EXPECT_EQ(sent_to(kAlice), "");  // Still waits for "other".
  EXPECT_EQ(sent_to(kBob), kStopWaitingReply);
  EXPECT_EQ(sent_to(kCarol), "");
  ask(9, RequestCode::kQueuePush, text("q") + text("2"));
  EXPECT_EQ(sent_to(kCarol), kStopWaitingReply);
  ask(9, RequestCode::kSet, text("other") + text(""));
  EXPECT_EQ(sent_to(kAlice), kStopWaitingReply);
}

TEST_F(StoreTableTest, LastPeerOfABarrierReleasesAll) {
  const std::string fields = text("b") + bytes_of<std::int64_t>(3);
  EXPECT_EQ(ask(kAlice, RequestCode::kBarrier, fields), "");
  EXPECT_EQ(ask(kBob, RequestCode::kBarrier, fields), "");
  EXPECT_EQ(ask(kCarol, RequestCode::kBarrier, fields), kStopWaitingReply);
  EXPECT_EQ(sent_to(kAlice), kStopWaitingReply);
  EXPECT_EQ(sent_to(kBob), kStopWaitingReply);
}

// Random requests: when everything is deleted, no memory is counted.
TEST_F(StoreTableTest, CountsNoBytesWhenEverythingIsDeleted) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    std::mt19937_64 random(seed);
    const auto below = [&](std::uint64_t bound) { return random() % bound; };
    const auto key = [&] { return text("key" + std::to_string(below(6))); };
    const auto value = [&] { return text(std::string(below(3) * below(3000), 'v')); };
    for (int i = 0; i < 300; ++i) {
      const PeerId peer = below(4);
      switch (below(11)) {
        case 0:
          ask(peer, RequestCode::kSet, key() + value());
          break;
        case 1:
          ask(peer, RequestCode::kAppend, key() + value());
          break;
        case 2:
          ask(peer, RequestCode::kCompareSet, key() + text("") + value());
          break;
        case 3:
          ask(peer, RequestCode::kDeleteKey, key());
          break;
        case 4:
          ask(peer, RequestCode::kQueuePush, key() + value());
          break;
        case 5:
          ask(peer, RequestCode::kQueuePop, key());
          break;
        case 6:
          ask(peer, RequestCode::kWait, bytes_of<std::uint64_t>(3) + key() + key() + key());
          break;
        case 7:
          ask(peer, RequestCode::kBarrier,
              text("barrier" + std::to_string(i)) + bytes_of<std::int64_t>(2));
          break;
        case 8:
          ask(peer, RequestCode::kCancelWait);
          break;
        case 9:
          table_.forget(peer);
          break;
        case 10:
          ask(peer, RequestCode::kMultiSet,
              bytes_of<std::uint64_t>(2) + key() + value() + key() + value());
          break;
      }
    }
    for (PeerId peer = 0; peer < 4; ++peer) table_.forget(peer);
    for (int i = 0; i < 300; ++i) {
      ask(kAlice, RequestCode::kDeleteKey, text("barrier" + std::to_string(i)));
      ask(kAlice, RequestCode::kDeleteKey, text("key" + std::to_string(i % 6)));
      ask(kAlice, RequestCode::kQueuePop, text("key" + std::to_string(i % 6)));
    }
    ASSERT_EQ(table_.key_count(), 0u) << seed;
    ASSERT_EQ(table_.bytes(), 0u) << seed;
  }
}

TEST_F(StoreTableTest, FreesItsMemoryWhenEverythingIsDeleted) {
  constexpr int kKeys = 100'000;
  const std::size_t before = ::mallinfo2().uordblks;
  for (int i = 0; i < kKeys; ++i) {
    ask(kAlice, RequestCode::kSet, text(std::to_string(i)) + text(""));
    ask(kAlice, RequestCode::kQueuePush, text(std::to_string(i)) + text(""));
  }
  for (int i = 0; i < kKeys; ++i) {
    ask(kAlice, RequestCode::kDeleteKey, text(std::to_string(i)));
    ask(kAlice, RequestCode::kQueuePop, text(std::to_string(i)));
  }
  EXPECT_LT(::mallinfo2().uordblks, before + 1024 * 1024);
}

TEST_F(StoreTableTest, ReportsWhatAPeerWaitsFor) {
  EXPECT_FALSE(table_.wait_of(kAlice, 9));
  ask(kAlice, RequestCode::kWait, keys({"a", "b", "c", "d"}));
  ask(kBob, RequestCode::kSet, text("b") + text(""));
  EXPECT_TRUE(table_.is_waiting(kAlice));
  const auto wait = table_.wait_of(kAlice, 9).value();
  EXPECT_THAT(wait.keys, ::testing::UnorderedElementsAre("a", "c", "d"));
  EXPECT_EQ(wait.keys_left, 3u);
  EXPECT_EQ(wait.arrivals_wanted, 0);
  EXPECT_EQ(table_.wait_of(kAlice, 2)->keys.size(), 2u);

  ask(kBob, RequestCode::kBarrier, text("all") + bytes_of<std::int64_t>(4));
  ask(kCarol, RequestCode::kBarrier, text("all") + bytes_of<std::int64_t>(4));
  const auto barrier = table_.wait_of(kBob, 9).value();
  EXPECT_THAT(barrier.keys, ::testing::ElementsAre("all"));
  EXPECT_EQ(barrier.arrived, 2);
  EXPECT_EQ(barrier.arrivals_wanted, 4);
  ask(kBob, RequestCode::kCancelWait);
  EXPECT_FALSE(table_.wait_of(kBob, 9));
}

}  // namespace
}  // namespace distrun
