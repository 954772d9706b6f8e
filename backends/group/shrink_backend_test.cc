// shrink_group() with backends that can shrink, as "nccl" can.
#include <cstdint>
#include <optional>
#include <vector>

#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/debug.h>

#include "distrun/backend_registry.h"
#include "distrun/split_group.h"

namespace distrun {
namespace {

using ::testing::ElementsAre;

struct ShrinkCall {
  std::vector<std::int64_t> without;
  int flags = 0;
  c10::intrusive_ptr<c10d::Backend::Options> options;
};

std::optional<ShrinkCall> last_shrink;
int made = 0, aborted = 0;

// Notes how it is shrunk.
class Shrinker : public c10d::Backend {
 public:
  using Backend::Backend;

  const std::string getBackendName() const override { return "shrinker"; }
  bool supportsShrinking() const override { return true; }
  c10::intrusive_ptr<c10d::Backend> shrink(const std::vector<std::int64_t>& without, int flags,
                                           const c10::intrusive_ptr<Options>& options) override {
    last_shrink = ShrinkCall{without, flags, options};
    return c10::make_intrusive<Shrinker>(0, getSize() - static_cast<int>(without.size()));
  }
  void abort() override { ++aborted; }
  void shutdown() override {}
};

class ShrinkBackendTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!is_backend_available("shrinker")) {
      const auto maker = [](const BackendRequest& request) {
        ++made;
        // Keys of an earlier group would lead to ranks that have gone.
        EXPECT_FALSE(request.store->check({"made"}));
        request.store->set("made", "");
        return c10::make_intrusive<Shrinker>(request.rank, request.size);
      };
      register_backend("shrinker", maker, {c10::kCPU});
    }
    last_shrink.reset();
    made = aborted = 0;
    init_process_group({.backend = "shrinker",
                        .rank = 0,
                        .world_size = 4,
                        .store = c10::make_intrusive<c10d::HashStore>()});
  }
  void TearDown() override { destroy_process_group(); }
};

TEST_F(ShrinkBackendTest, TheBackendShrinksInsteadOfConnectingAnew) {
  shrink_group({3, 1});
  ASSERT_TRUE(last_shrink);
  EXPECT_THAT(last_shrink->without, ElementsAre(1, 3));
  EXPECT_EQ(last_shrink->flags, 0);
  EXPECT_EQ(made, 1);
  EXPECT_EQ(get_world_size(), 2);
  EXPECT_EQ(Group()->getBackend(c10::kCPU)->getSize(), 2);
}

TEST_F(ShrinkBackendTest, TheBackendItselfAborts) {
  const auto options = c10::make_intrusive<c10d::Backend::Options>("shrinker");
  shrink_group({3}, {}, {.abort = true, .backend_options = options});
  ASSERT_TRUE(last_shrink);
  EXPECT_EQ(last_shrink->flags, 1);
  EXPECT_EQ(last_shrink->options, options);
  EXPECT_EQ(aborted, 0);
}

// Their names are those of the old world's groups.
TEST_F(ShrinkBackendTest, GroupsOfTheNewWorldHaveTheirOwnKeys) {
  const Group old = new_group({0});
  shrink_group({1});
  const Group next = new_group({0});
  EXPECT_EQ(old.is_member(), next.is_member());
  EXPECT_EQ(made, 3);
}

// Unlike the default group's, its ranks keep their numbers.
TEST_F(ShrinkBackendTest, ASubgroupKeepsItsGlobalRanks) {
  const Group group = shrink_group({1}, new_group({0, 2, 3}));
  ASSERT_TRUE(last_shrink);
  EXPECT_THAT(get_process_group_ranks(group), ElementsAre(0, 3));
  EXPECT_EQ(get_world_size(), 4);
}

}  // namespace
}  // namespace distrun
