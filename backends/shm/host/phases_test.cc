#include "backends/shm/host/phases.h"

#include <array>
#include <atomic>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/shm/host/rank_region.h"

namespace distrun::shm {
namespace {

using ::testing::ElementsAre;

class TellingWatch : public Watch {
 public:
  // Instead of a peer that runs at the same time.
  explicit TellingWatch(std::function<void()> while_it_waits) : act_(std::move(while_it_waits)) {}

  void check(int rank) override {
    calls.push_back("check " + std::to_string(rank));
    act_();
  }
  void waits() override { calls.emplace_back("waits"); }
  void advances() override { calls.emplace_back("advances"); }
  void published() override { calls.emplace_back("published"); }

  std::vector<std::string> calls;

 private:
  const std::function<void()> act_;
};

// Rank 0 publishes phases. While it waits, rank 1 publishes its next one.
class PhasesTest : public ::testing::Test {
 protected:
  static constexpr MemorySizes kSizes{
      .ranks = 2, .slot_bytes = kPageBytes, .ring_bytes = kPageBytes, .cells = 8};

  Phases phases_of(int rank, const WaitPolicy& policy = {}) const {
    return Phases({&first_.memory(), &second_.memory()}, kSizes, rank, policy);
  }

  static void publish_next(Phases& phases, Watch& watch, bool takes_slot = false) {
    phases.begin({}, watch);
    if (takes_slot) phases.take_slot(watch);
    phases.publish(watch);
  }
  void publish_some(int count) {
    for (int phase = 0; phase < count; ++phase) publish_next(mine_, watch_);
  }
  void peer_publishes_next() { publish_next(theirs_, never_); }

 private:
  const RankRegion first_ = RankRegion::create(0, kSizes).value();
  const RankRegion second_ = RankRegion::create(1, kSizes).value();
  Phases theirs_ = phases_of(1);
  TellingWatch never_{[] { FAIL() << "rank 1 waits"; }};

 protected:
  Phases mine_ = phases_of(0);
  TellingWatch watch_{[this] { peer_publishes_next(); }};
};

// The time in which a thread lets others run counts, too.
TEST_F(PhasesTest, TellsItsWatchOfAWaitBeforeItLetsOthersRun) {
  Phases phases = phases_of(0, {.looks = 3, .yields = 1});
  TellingWatch watch([] { throw std::runtime_error("it does not come"); });
  publish_next(phases, watch);
  EXPECT_THROW(phases.wait_for(1, watch), std::runtime_error);
  EXPECT_THAT(watch.calls, ElementsAre("published", "waits", "check 1"));
}

TEST_F(PhasesTest, TellsItsWatchThatARankIsOnlyBehind) {
  publish_some(3);
  watch_.calls.clear();
  mine_.wait_for_all(watch_);
  EXPECT_THAT(watch_.calls, ElementsAre("check 1", "advances", "check 1", "advances", "check 1"));
}

TEST_F(PhasesTest, ARankThatIsAheadWaitsForNoMoreThanItNeeds) {
  publish_some(7);
  watch_.calls.clear();
  publish_next(mine_, watch_);  // Again into the first cell.
  EXPECT_THAT(watch_.calls, ElementsAre("check 1", "published"));
}

TEST_F(PhasesTest, ARankThatTakesASlotAgainWaitsForNoMoreThanItNeeds) {
  publish_next(mine_, watch_, /*takes_slot=*/true);
  publish_some(3);
  peer_publishes_next();
  watch_.calls.clear();
  publish_next(mine_, watch_, /*takes_slot=*/true);  // Until rank 1 has published its second phase.
  EXPECT_THAT(watch_.calls, ElementsAre("check 1", "published"));
}

class NoWatch : public Watch {
 public:
  void check(int /*rank*/) override {}
};

// Two ranks in two threads.
class LeadingPhasesTest : public ::testing::Test {
 protected:
  static constexpr MemorySizes kSizes{
      .ranks = 2, .slot_bytes = kPageBytes, .ring_bytes = kPageBytes, .cells = 8};

  static void lead_next(Phases& phases) {
    NoWatch watch;
    phases.begin({}, watch);
    phases.publish(watch);
    phases.lead();
  }

  const RankRegion first_ = RankRegion::create(0, kSizes).value();
  const RankRegion second_ = RankRegion::create(1, kSizes).value();
  Phases zero_{{&first_.memory(), &second_.memory()}, kSizes, 0, WaitPolicy()};
  Phases one_{{&first_.memory(), &second_.memory()}, kSizes, 1, WaitPolicy()};
};

// Without the fence, no rank finds the other in some hundred of the rounds.
TEST_F(LeadingPhasesTest, OfTwoRanksThatLeadAtTheSameTimeOneFindsTheOther) {
  constexpr int kRounds = 100'000;
  std::array<std::atomic<int>, 2> round{};
  std::array<std::vector<char>, 2> found;
  const auto lead_each_round = [&](Phases& phases) {
    const auto me = static_cast<std::size_t>(phases.rank());
    for (int now = 1; now <= kRounds; ++now) {
      round[me] = now;
      for (int looks = 0; round[1 - me] < now; ++looks) {
        if (looks > 1000) std::this_thread::yield();
      }
      lead_next(phases);
      found[me].push_back(phases.leads(1 - phases.rank()) ? 1 : 0);
    }
  };
  std::thread other([&] { lead_each_round(one_); });
  lead_each_round(zero_);
  other.join();
  int missed = 0;
  for (std::size_t at = 0; at < kRounds; ++at) missed += found[0][at] + found[1][at] == 0 ? 1 : 0;
  EXPECT_EQ(missed, 0);
}

// By its number, the phase could be a later one of the other rank.
TEST_F(LeadingPhasesTest, ARankThatLedLongAgoDoesNotLead) {
  second_.memory().leading.phase = 1 + 0x7fffffffU;
  lead_next(zero_);
  EXPECT_FALSE(zero_.leads(1));
  NoWatch watch;
  one_.begin({}, watch);
  one_.publish(watch);
  EXPECT_TRUE(zero_.leads(1));
}

}  // namespace
}  // namespace distrun::shm
