#include "backends/fake/wire_traffic.h"

#include "backends/fake/test/fake_world.h"

namespace distrun {

namespace internal {

static void PrintTo(const WireBytes& one, std::ostream* out) {
  *out << "sent " << one.sent << " received " << one.received;
}

namespace {

using ::testing::ElementsAre;

TEST(WireModelTest, AllReduceSendsAllPartsButOneTwice) {
  EXPECT_EQ(WireModel(3, 8).all_reduce(1024), (WireBytes{1792, 1792}));
  EXPECT_EQ(WireModel(0, 1024).all_reduce(4'096'000), (WireBytes{8'184'000, 8'184'000}));
}

// 2/3 of 10 bytes, rounded up, is 7 in each of the two steps.
TEST(WireModelTest, RoundsUpToWholeBytes) {
  EXPECT_EQ(WireModel(1, 3).all_reduce(10), (WireBytes{14, 14}));
  EXPECT_EQ(WireModel(1, 1024).all_reduce(4), (WireBytes{8, 8}));
  EXPECT_EQ(WireModel(1, 3).all_reduce(0), (WireBytes{0, 0}));
}

TEST(WireModelTest, RingsSendAsMuchAsTheOtherRanksHave) {
  EXPECT_EQ(WireModel(2, 5).all_gather(100), (WireBytes{400, 400}));
  EXPECT_EQ(WireModel(2, 5).reduce_scatter(100), (WireBytes{400, 400}));
}

TEST(WireModelTest, BroadcastEndsAtTheRankBeforeTheRoot) {
  EXPECT_EQ(WireModel(2, 4).broadcast(7, 2), (WireBytes{7, 0}));
  EXPECT_EQ(WireModel(3, 4).broadcast(7, 2), (WireBytes{7, 7}));
  EXPECT_EQ(WireModel(0, 4).broadcast(7, 2), (WireBytes{7, 7}));
  EXPECT_EQ(WireModel(1, 4).broadcast(7, 2), (WireBytes{0, 7}));
}

TEST(WireModelTest, ReductionStartsAtTheRankAfterTheRoot) {
  EXPECT_EQ(WireModel(3, 4).reduce(7, 2), (WireBytes{7, 0}));
  EXPECT_EQ(WireModel(0, 4).reduce(7, 2), (WireBytes{7, 7}));
  EXPECT_EQ(WireModel(1, 4).reduce(7, 2), (WireBytes{7, 7}));
  EXPECT_EQ(WireModel(2, 4).reduce(7, 2), (WireBytes{0, 7}));
}

TEST(WireModelTest, RootExchangesWithEachOtherRank) {
  EXPECT_EQ(WireModel(2, 4).gather(7, 2), (WireBytes{0, 21}));
  EXPECT_EQ(WireModel(1, 4).gather(7, 2), (WireBytes{7, 0}));
  EXPECT_EQ(WireModel(2, 4).scatter(7, 2), (WireBytes{21, 0}));
  EXPECT_EQ(WireModel(1, 4).scatter(7, 2), (WireBytes{0, 7}));
}

TEST(WireModelTest, GroupOfOneSendsNothing) {
  const WireModel alone(0, 1);
  for (const WireBytes& bytes :
       {alone.all_reduce(7), alone.all_gather(7), alone.reduce_scatter(7), alone.broadcast(7, 0),
        alone.reduce(7, 0), alone.gather(7, 0), alone.scatter(7, 0)}) {
    EXPECT_EQ(bytes, WireBytes());
  }
}

TEST(WireModelTest, RanksReceiveAsMuchAsTheySend) {
  for (int size = 1; size <= 9; ++size) {
    for (int root = 0; root < size; ++root) {
      WireBytes sums[4];
      const auto add = [](WireBytes& sum, const WireBytes& more) {
        sum.sent += more.sent;
        sum.received += more.received;
      };
      for (int rank = 0; rank < size; ++rank) {
        const WireModel model(rank, size);
        add(sums[0], model.broadcast(5, root));
        add(sums[1], model.reduce(5, root));
        add(sums[2], model.gather(5, root));
        add(sums[3], model.scatter(5, root));
      }
      for (const WireBytes& sum : sums) {
        EXPECT_EQ(sum, (WireBytes{5 * (size - 1), 5 * (size - 1)})) << size << " ranks";
      }
    }
  }
}

TEST(WireModelTest, LargeWorldsAndTensorsDoNotOverflow) {
  constexpr std::int64_t kTerabyte = 1'000'000'000'000;
  EXPECT_EQ(WireModel(0, 4096).all_gather(kTerabyte).sent, 4095 * kTerabyte);
  EXPECT_EQ(WireModel(0, 2'000'000'000).all_reduce(kTerabyte).sent, 2 * (kTerabyte - 500));
}

TEST(WireCountTest, AddsUpCallsByOperationInTheOrderOfFirstCalls) {
  WireCount count;
  count.add("reduce", 1, {2, 3});
  count.add("barrier", 0, {});
  count.add("reduce", 10, {20, 30});
  EXPECT_THAT(
      count.list(),
      ElementsAre(
          WireTraffic{.operation = "reduce", .calls = 2, .payload = 11, .sent = 22, .received = 33},
          WireTraffic{.operation = "barrier", .calls = 1}));
  count.reset();
  EXPECT_TRUE(count.list().empty());
}

TEST(WireModelTest, AcceptsTwoBillionRanks) {
  const WireModel last(/*rank=*/2'000'000'000, /*size=*/2'000'000'001);
  EXPECT_EQ(last.broadcast(8, /*root=*/0), (WireBytes{.sent = 0, .received = 8}));
}

}  // namespace
}  // namespace internal
}  // namespace distrun
