#include "backends/shm/host/phases.h"

#include <functional>
#include <stdexcept>
#include <string>
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

class PhasesTest : public ::testing::Test {
 protected:
  static constexpr MemorySizes kSizes{
      .ranks = 2, .slot_bytes = kPageBytes, .ring_bytes = kPageBytes, .cells = 8};

  // Of rank 0 and 1, which do not wait awake.
  Phases phases_of(int rank, const WaitPolicy& policy = {}) const {
    return Phases({&first_.memory(), &second_.memory()}, kSizes, rank, policy);
  }

  static void publish_next(Phases& phases, Watch& watch, bool takes_slot = false) {
    phases.begin({}, watch);
    if (takes_slot) phases.take_slot(watch);
    phases.publish(watch);
  }

 private:
  const RankRegion first_ = RankRegion::create(0, kSizes).value();
  const RankRegion second_ = RankRegion::create(1, kSizes).value();
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
  Phases mine = phases_of(0), theirs = phases_of(1);
  TellingWatch never([] { FAIL() << "rank 1 waits"; });
  TellingWatch watch([&] { publish_next(theirs, never); });
  for (int phase = 0; phase < 3; ++phase) publish_next(mine, watch);
  watch.calls.clear();
  mine.wait_for_all(watch);
  EXPECT_THAT(watch.calls, ElementsAre("check 1", "advances", "check 1", "advances", "check 1"));
}

TEST_F(PhasesTest, ARankThatIsAheadWaitsForNoMoreThanItNeeds) {
  Phases mine = phases_of(0), theirs = phases_of(1);
  TellingWatch never([] { FAIL() << "rank 1 waits"; });
  TellingWatch watch([&] { publish_next(theirs, never); });
  for (int phase = 0; phase < 7; ++phase) publish_next(mine, watch);
  watch.calls.clear();
  publish_next(mine, watch);  // Again into the first cell.
  EXPECT_THAT(watch.calls, ElementsAre("check 1", "published"));
}

TEST_F(PhasesTest, ARankThatTakesASlotAgainWaitsForNoMoreThanItNeeds) {
  Phases mine = phases_of(0), theirs = phases_of(1);
  TellingWatch never([] { FAIL() << "rank 1 waits"; });
  TellingWatch watch([&] { publish_next(theirs, never); });
  publish_next(mine, watch, /*takes_slot=*/true);
  for (int phase = 0; phase < 3; ++phase) publish_next(mine, watch);
  publish_next(theirs, never);
  watch.calls.clear();
  publish_next(mine, watch, /*takes_slot=*/true);  // Until rank 1 has published the second phase.
  EXPECT_THAT(watch.calls, ElementsAre("check 1", "published"));
}

}  // namespace
}  // namespace distrun::shm
