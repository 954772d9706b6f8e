#include "backends/shm/host/phases.h"

#include <stdexcept>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/shm/host/rank_region.h"

namespace distrun::shm {
namespace {

using ::testing::ElementsAre;

class TellingWatch : public Watch {
 public:
  void check(int rank) override {
    calls.push_back("check " + std::to_string(rank));
    throw std::runtime_error("it does not come");
  }
  void waits() override { calls.emplace_back("waits"); }
  void published() override { calls.emplace_back("published"); }

  std::vector<std::string> calls;
};

// The time in which a thread lets others run counts, too.
TEST(PhasesTest, TellsItsWatchOfAWaitBeforeItLetsOthersRun) {
  const MemorySizes sizes{.ranks = 2, .slot_bytes = kPageBytes, .ring_bytes = kPageBytes};
  const RankRegion mine = RankRegion::create(0, sizes).value();
  const RankRegion theirs = RankRegion::create(1, sizes).value();
  Phases phases({&mine.memory(), &theirs.memory()}, sizes, 0, {.looks = 3, .yields = 1});
  TellingWatch watch;
  phases.begin({}, watch);
  phases.publish(watch);
  EXPECT_THROW(phases.wait_for(1, watch), std::runtime_error);
  EXPECT_THAT(watch.calls, ElementsAre("published", "waits", "check 1"));
}

}  // namespace
}  // namespace distrun::shm
