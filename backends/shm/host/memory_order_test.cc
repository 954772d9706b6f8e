// The protocols of flags in shared memory, with threads that share one mapping of it:
// ThreadSanitizer sees every access, as it cannot across the mappings of ranks. Ranks wait in three
// ways: they sleep at once, they let others run, or they look.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <random>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "backends/shm/host/host_collectives.h"
#include "backends/shm/host/host_error.h"
#include "backends/shm/host/host_ranks.h"
#include "backends/shm/host/mailbox.h"
#include "backends/shm/host/phases.h"
#include "backends/shm/host/rank_region.h"
#include "backends/shm/host/shared_blocks.h"

namespace distrun::shm {
namespace {

class Patient : public Watch {
 public:
  explicit Patient(const HostRanks& ranks) : ranks_(ranks) {}
  void check(int /*rank*/) override {
    ranks_.check_usable();
    if (std::chrono::steady_clock::now() < deadline_) return;
    throw HostError(std::vector<int>(), "timed out");
  }

 private:
  const HostRanks& ranks_;
  const std::chrono::steady_clock::time_point deadline_ =
      std::chrono::steady_clock::now() + std::chrono::seconds(60);
};

struct Rank {
  Rank(int me, const std::vector<RankRegion>& regions, const std::vector<RankMemory*>& memories,
       const MemorySizes& sizes, const WaitPolicy& policy)
      : names(numbers(sizes.ranks)),
        ranks(me, names, memories, std::vector<UniqueFd>(memories.size())),
        phases(memories, sizes, me, policy),
        blocks(regions, me),
        peers(std::vector<pid_t>(memories.size())),
        collectives(phases, ranks.names(), blocks, peers, /*have_cpus=*/true),
        mailbox(ranks, sizes, policy) {}

  static std::vector<int> numbers(int count) {
    std::vector<int> all(static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i) all[static_cast<std::size_t>(i)] = i;
    return all;
  }

  std::vector<int> names;
  HostRanks ranks;
  Phases phases;
  SharedBlocks blocks;
  PeerMemory peers;
  HostCollectives collectives;
  Mailbox mailbox;
};

struct Waiting {
  const char* name;
  WaitPolicy policy;

  friend std::ostream& operator<<(std::ostream& out, const Waiting& waiting) {
    return out << waiting.name;
  }
};

class MemoryOrderTest : public ::testing::TestWithParam<Waiting> {
 protected:
  static constexpr int kRanks = 3;
  // Few cells, so that they are used again and again, too.
  static constexpr MemorySizes kSizes{
      .ranks = kRanks, .slot_bytes = 2 * kPageBytes, .ring_bytes = kPageBytes, .cells = 4};

  static void run(const std::function<void(Rank&, int)>& act) {
    std::vector<RankRegion> regions;
    std::vector<RankMemory*> memories;
    for (int rank = 0; rank < kRanks; ++rank) {
      regions.push_back(RankRegion::create(rank, kSizes).value());
      memories.push_back(&regions.back().memory());
    }
    std::vector<std::thread> threads;
    for (int rank = 0; rank < kRanks; ++rank) {
      threads.emplace_back([&, rank] {
        Rank mine(rank, regions, memories, kSizes, GetParam().policy);
        act(mine, rank);
      });
    }
    for (std::thread& each : threads) each.join();
  }
};

INSTANTIATE_TEST_SUITE_P(All, MemoryOrderTest,
                         ::testing::Values(Waiting{"sleeps", {.looks = 0, .yields = 0}},
                                           Waiting{"yields", {.looks = 0, .yields = 1000}},
                                           Waiting{"looks", {.looks = 100'000, .yields = 0}}),
                         [](const auto& each) { return each.param.name; });

// Chunks of at most two pages, so that slots are used again and again.
TEST_P(MemoryOrderTest, CollectivesSeeWhatOtherRanksWrote) {
  run([](Rank& mine, int rank) {
    Patient watch(mine.ranks);
    std::mt19937 random(7);
    for (std::int32_t time = 0; time < 300; ++time) {
      const std::size_t count = random() % 3000;
      const auto kind = random() % 5;
      std::vector<std::int32_t> values(count, rank + time);
      auto* bytes = reinterpret_cast<std::byte*>(values.data());
      const std::size_t size = count * sizeof(std::int32_t);
      if (kind == 0) {
        mine.collectives.all_reduce(bytes, count, {Element::kInt32, Reduction::kSum}, watch);
        ASSERT_EQ(values, std::vector<std::int32_t>(count, 3 + 3 * time));
      } else if (kind == 1) {
        mine.collectives.broadcast(bytes, size, time % kRanks, watch);
        ASSERT_EQ(values, std::vector<std::int32_t>(count, time % kRanks + time));
      } else if (kind == 2) {
        std::vector<std::vector<std::int32_t>> all(kRanks, std::vector<std::int32_t>(count));
        std::vector<std::byte*> outputs;
        outputs.reserve(all.size());
        for (auto& each : all) outputs.push_back(reinterpret_cast<std::byte*>(each.data()));
        mine.collectives.all_gather(bytes, outputs, size, watch);
        for (int from = 0; from < kRanks; ++from) {
          ASSERT_EQ(all[static_cast<std::size_t>(from)],
                    std::vector<std::int32_t>(count, from + time));
        }
      } else if (kind == 3) {
        mine.collectives.barrier(watch);
      } else {  // The root runs ahead.
        for (std::int32_t i = 0; i < 10; ++i) {
          std::vector<std::int32_t> few(1 + count % 20, rank + i);
          mine.collectives.broadcast(reinterpret_cast<std::byte*>(few.data()),
                                     few.size() * sizeof(std::int32_t), time % kRanks, watch);
          ASSERT_EQ(few, std::vector<std::int32_t>(few.size(), time % kRanks + i));
        }
      }
    }
  });
}

// Rings of one page, so that most messages wait for room.
TEST_P(MemoryOrderTest, MessagesArriveAsTheyWereSent) {
  run([](Rank& mine, int rank) {
    const int to = (rank + 1) % kRanks, from = (rank + kRanks - 1) % kRanks;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    std::mt19937 random(7);
    for (int time = 0; time < 200; ++time) {
      const std::size_t size = random() % 10'000;
      const std::vector<std::byte> sent(size, static_cast<std::byte>(rank * 16 + time % 16));
      std::vector<std::byte> received(size);
      const auto ignore = [](const std::exception_ptr& error) { EXPECT_FALSE(error); };
      const auto out = mine.mailbox.send(sent.data(), size, to, 0, ignore);
      const auto in = mine.mailbox.receive(received.data(), size, from, 0, ignore);
      mine.mailbox.wait(*in, deadline);
      mine.mailbox.wait(*out, deadline);
      ASSERT_EQ(received,
                std::vector<std::byte>(size, static_cast<std::byte>(from * 16 + time % 16)));
    }
  });
}

}  // namespace
}  // namespace distrun::shm
