// Ranks train with uneven inputs in random patterns, and fail at random places.
//
// Environment: DISTRUN_JOIN_PATTERNS is the number of seeds (default 20), DISTRUN_SEED the first
// one (default 0), or "random".
#include <cstdlib>
#include <random>
#include <string>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "backends/test/multirank_test.h"
#include "parallel/ddp/test/join_training.h"

namespace distrun {
namespace {

using ::testing::AnyOf;
using testing::faulty_join_pattern;
using ::testing::HasSubstr;
using testing::join_pattern;
using testing::JoinFault;
using testing::JoinPattern;
using testing::JoinTraining;
using ::testing::Not;
using testing::TensorDict;

struct JoinPatternsMultirankTest : MultirankTest {
  static std::uint64_t patterns() {
    const char* count = std::getenv("DISTRUN_JOIN_PATTERNS");
    return count == nullptr ? 20 : std::stoull(count);
  }

  // Returns the same seed on every rank.
  static std::uint64_t first_seed() {
    const char* first = std::getenv("DISTRUN_SEED");
    if (first == nullptr) return 0;
    if (first != std::string("random")) return std::stoull(first);
    const std::string own = std::to_string(std::random_device()());
    return std::stoull(broadcast_bytes(own, 0));
  }

  static void expect_the_same_everywhere(const TensorDict& state, bool with_buffers) {
    for (const auto& one : state) {
      const bool is_buffer =
          one.key().starts_with("norm.running_") || one.key().starts_with("norm.num_");
      if (is_buffer && !with_buffers) continue;
      const at::Tensor own = one.value().contiguous();
      Tensors all = of_all_ranks([&](int) { return at::empty_like(own); });
      all_gather(all, own);
      for (int rank = 0; rank < get_world_size(); ++rank) {
        EXPECT_TRUE(all[static_cast<std::size_t>(rank)].equal(own))
            << one.key() << " is not what rank " << rank << " has";
      }
    }
  }

  static void train(const JoinPattern& pattern) {
    JoinTraining training(pattern);
    training.run();
    const int inputs = pattern.inputs[static_cast<std::size_t>(get_rank())];
    EXPECT_EQ(training.losses().size(), static_cast<std::size_t>(inputs));
    if (pattern.counter) {
      std::vector<int> ranks;
      for (int step = 0; step < inputs; ++step) ranks.push_back(pattern.ranks_in(step));
      EXPECT_EQ(training.counts(), ranks);
      EXPECT_EQ(training.last_joiner(), std::vector{inputs == pattern.inputs_max()});
    }
    expect_the_same_everywhere(training.state(), pattern.options.broadcast_buffers);
  }

  static std::string error_of_training(const JoinPattern& pattern) {
    JoinTraining training(pattern);
    try {
      training.run();
    } catch (const c10::DistError& error) {
      return error.what_without_backtrace();
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "";
  }
};

TEST_F(JoinPatternsMultirankTest, EndsWithTheSameModelOnEveryRank) {
  const std::uint64_t first = first_seed();
  for (std::uint64_t seed = first; seed < first + patterns(); ++seed) {
    const JoinPattern pattern = join_pattern(seed, get_world_size());
    SCOPED_TRACE(to_json(pattern).dump());
    train(pattern);
  }
}

TEST_F(JoinPatternsMultirankTest, ReportsTheFaultOfOneRankOnEveryRank) {
  if (get_world_size() == 1) GTEST_SKIP() << "needs a peer";
  const std::uint64_t first = first_seed();
  for (std::uint64_t seed = first; seed < first + patterns(); ++seed) {
    const JoinPattern pattern = faulty_join_pattern(seed, get_world_size());
    SCOPED_TRACE(to_json(pattern).dump());
    const std::string text = error_of_training(pattern);
    const std::string told = "rank " + std::to_string(pattern.fault->rank) +
                             " has failed: the disk is on fire; this rank saw: ";
    if (get_rank() == pattern.fault->rank) {
      EXPECT_EQ(text, "the disk is on fire");
    } else if (pattern.fault->place == JoinFault::Place::kPostHook) {
      // Ranks that have finished the join do not see the failure.
      EXPECT_THAT(text, AnyOf(HasSubstr(told), ""));
    } else {
      EXPECT_THAT(text, HasSubstr(told));
    }
    // No rank waits for the timeout.
    EXPECT_THAT(text, Not(HasSubstr("Timed out")));
    rendezvous_at(std::to_string(seed));  // Before a rank leaves the group.
    destroy_process_group();
    init_process_group({.backend = backend(), .timeout = std::chrono::seconds(30)});
  }
}

}  // namespace
}  // namespace distrun
