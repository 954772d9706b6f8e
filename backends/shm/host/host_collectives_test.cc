#include "backends/shm/host/host_collectives.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <future>
#include <latch>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "backends/shm/host/host_error.h"
#include "backends/shm/host/test/threads_as_ranks.h"
#include "common/os/unique_fd.h"

namespace distrun::shm {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::StartsWith;

using Bytes = std::vector<std::byte>;
using Values = std::vector<std::int32_t>;
using std::chrono::milliseconds;

constexpr milliseconds kLong(60'000);
constexpr Reducing kSumOfInts{Element::kInt32, Reduction::kSum};

// Differs for each rank, receiver and place.
std::byte byte_at(int from, int to, std::size_t i) {
  return static_cast<std::byte>(static_cast<std::size_t>(from) * 7 +
                                static_cast<std::size_t>(to) * 31 + i + i / 251);
}

Bytes bytes_of_rank(int from, int to, std::size_t count) {
  Bytes all(count);
  for (std::size_t i = 0; i < count; ++i) all[i] = byte_at(from, to, i);
  return all;
}

Values values_of_rank(int rank, std::size_t count) {
  Values all(count);
  for (std::size_t i = 0; i < count; ++i) {
    all[i] = static_cast<std::int32_t>(i) * (rank + 1) + rank;
  }
  return all;
}

Values sum_of_all(int ranks, std::size_t count) {
  Values sum(count);
  for (int rank = 0; rank < ranks; ++rank) {
    const Values one = values_of_rank(rank, count);
    for (std::size_t i = 0; i < count; ++i) sum[i] += one[i];
  }
  return sum;
}

std::byte* bytes_in(Values& values) { return reinterpret_cast<std::byte*>(values.data()); }

std::vector<std::byte*> addresses_of(std::vector<Bytes>& buffers) {
  std::vector<std::byte*> all;
  all.reserve(buffers.size());
  for (Bytes& each : buffers) all.push_back(each.data());
  return all;
}

std::vector<const std::byte*> const_addresses_of(std::vector<Bytes>& buffers) {
  const auto all = addresses_of(buffers);
  return {all.begin(), all.end()};
}

struct RunSize {
  int ranks;
  std::size_t bytes;
};

// The sizes of a cell's bytes, of a slot and of a call that reduces at once, and their neighbours.
constexpr RunSize kRunSizes[] = {{1, 40},    {2, 0},       {2, 4},      {2, 24},     {2, 28},
                                 {2, 32768}, {2, 32772},   {2, 524288}, {2, 524292}, {2, 2097156},
                                 {3, 0},     {3, 20},      {3, 100},    {3, 524292}, {3, 2000000},
                                 {5, 60},    {5, 1048580}, {8, 8},      {8, 100000}};

class HostCollectivesTest : public ::testing::Test {
 protected:
  using Call = std::function<void(Collectives&, int, Watch&)>;

  // A collective on `bytes` bytes of each rank.
  struct Run {
    int ranks;
    std::size_t bytes;

    std::size_t count() const { return bytes / sizeof(std::int32_t); }
    std::vector<Bytes> buffers() const {
      return std::vector<Bytes>(static_cast<std::size_t>(ranks), Bytes(bytes));
    }

    // Twice, because the second call finds what the first one left.
    void operator()(const Call& call) const {
      const auto errors = run_as_ranks(ranks, [&](HostGroup& group, int rank) {
        for (int time = 0; time < 2; ++time) {
          group.run(in_time(), [&](Collectives& collectives, Watch& watch) {
            call(collectives, rank, watch);
          });
        }
      });
      EXPECT_THAT(errors, Each(""));
    }
  };

  static void with_all_sizes(const std::function<void(const Run&)>& act) {
    for (const RunSize& size : kRunSizes) {
      SCOPED_TRACE(std::to_string(size.ranks) + " ranks, " + std::to_string(size.bytes) + " bytes");
      act(Run{size.ranks, size.bytes});
    }
  }
};

TEST_F(HostCollectivesTest, BroadcastCopiesTheRootsBytes) {
  with_all_sizes([](const Run& of) {
    for (int root = 0; root < of.ranks; root += std::max(of.ranks - 1, 1)) {
      of([&](Collectives& collectives, int rank, Watch& watch) {
        Bytes data = bytes_of_rank(rank, 0, of.bytes);
        collectives.broadcast(data.data(), data.size(), root, watch);
        EXPECT_EQ(data, bytes_of_rank(root, 0, of.bytes));
      });
    }
  });
}

TEST_F(HostCollectivesTest, AllReduceSumsOnAllRanks) {
  with_all_sizes([](const Run& of) {
    of([&](Collectives& collectives, int rank, Watch& watch) {
      Values data = values_of_rank(rank, of.count());
      collectives.all_reduce(bytes_in(data), of.count(), kSumOfInts, watch);
      EXPECT_EQ(data, sum_of_all(of.ranks, of.count()));
    });
  });
}

// Values of a rank in a block, at a place that is not the block's begin.
struct ValuesInBlock {
  static constexpr std::size_t kBefore = 3;  // Values.

  ValuesInBlock(HostGroup& group, int rank, std::size_t count)
      : block(group.blocks().allocate((count + kBefore) * sizeof(std::int32_t)).value()) {
    const Values values = values_of_rank(rank, count);
    std::memcpy(bytes(), values.data(), count * sizeof(std::int32_t));
  }
  std::byte* bytes() const { return block->data() + kBefore * sizeof(std::int32_t); }
  Values values(std::size_t count) const {
    Values all(count);
    std::memcpy(all.data(), bytes(), count * sizeof(std::int32_t));
    return all;
  }

  std::unique_ptr<SharedBlock> block;
};

TEST_F(HostCollectivesTest, AllReduceSumsDataInBlocks) {
  for (const int ranks : {1, 2, 3, 5}) {
    for (const std::size_t count : {300'000, 262'144, 1'000'003}) {
      const auto errors = run_as_ranks(ranks, [&](HostGroup& group, int rank) {
        const ValuesInBlock data(group, rank, count);
        group.run(in_time(), [&](Collectives& collectives, Watch& watch) {
          collectives.all_reduce(data.bytes(), count, kSumOfInts, watch);
          EXPECT_EQ(data.values(count), sum_of_all(ranks, count));
        });
      });
      EXPECT_THAT(errors, Each(""));
    }
  }
}

// So that the ranks agree on the way.
TEST_F(HostCollectivesTest, AllReduceSumsDataThatAreInABlockOnSomeRanksOnly) {
  constexpr std::size_t kCount = 500'000;
  const auto errors = run_as_ranks(3, [&](HostGroup& group, int rank) {
    const ValuesInBlock in_block(group, rank, kCount);
    Values outside = values_of_rank(rank, kCount);
    group.run(in_time(), [&](Collectives& collectives, Watch& watch) {
      collectives.all_reduce(rank == 1 ? bytes_in(outside) : in_block.bytes(), kCount, kSumOfInts,
                             watch);
      EXPECT_EQ(rank == 1 ? outside : in_block.values(kCount), sum_of_all(3, kCount));
    });
  });
  EXPECT_THAT(errors, Each(""));
}

// Does something when a reduction first looks for failures, before it writes in place.
class Interrupted : public Watch {
 public:
  Interrupted(Watch& watch, std::function<void()> act) : watch_(watch), act_(std::move(act)) {}
  void check(int rank) override { watch_.check(rank); }
  void check_failed() override {
    watch_.check_failed();
    act();
  }
  void check_present() override {
    watch_.check_present();
    act();
  }

 private:
  void act() {
    if (auto act = std::exchange(act_, nullptr)) act();
  }

  Watch& watch_;
  std::function<void()> act_;
};

// Rank 0 gives up while rank 1 reduces, and the program goes on with rank 0's data.
TEST_F(HostCollectivesTest, ARankThatFailsDuringAReductionInPlaceKeepsItsDataAndFailsTheOthers) {
  constexpr std::size_t kCount = 500'000;
  std::latch has_failed(1), is_over(1);
  const auto errors = run_as_ranks(2, [&](HostGroup& group, int rank) {
    const ValuesInBlock data(group, rank, kCount);
    const auto sum = [&](Collectives& collectives, Watch& watch) {
      collectives.all_reduce(data.bytes(), kCount, kSumOfInts, watch);
    };
    if (rank == 0) {
      EXPECT_THROW(group.run(std::chrono::steady_clock::now() + milliseconds(200), sum), HostError);
      std::memset(data.bytes(), 7, kCount * sizeof(std::int32_t));
      has_failed.count_down();
      is_over.wait();
      EXPECT_EQ(data.values(kCount), Values(kCount, 0x07070707));
      return;
    }
    std::string error;
    try {
      group.run(in_time(), [&](Collectives& collectives, Watch& watch) {
        Interrupted its(watch, [&] { has_failed.wait(); });
        sum(collectives, its);
      });
    } catch (const HostError& thrown) {
      error = thrown.what();
    }
    has_failed.wait();
    is_over.count_down();
    EXPECT_THAT(error, StartsWith("a call failed on rank 0: timed out"));
  });
  EXPECT_THAT(errors, Each(""));
}

TEST_F(HostCollectivesTest, ReduceSumsOnTheRootAndLeavesOthersAsTheyAre) {
  with_all_sizes([](const Run& of) {
    const int root = of.ranks - 1;
    of([&](Collectives& collectives, int rank, Watch& watch) {
      Values data = values_of_rank(rank, of.count());
      collectives.reduce(bytes_in(data), of.count(), kSumOfInts, root, watch);
      EXPECT_EQ(data,
                rank == root ? sum_of_all(of.ranks, of.count()) : values_of_rank(rank, of.count()));
    });
  });
}

// Without and with reads from the memory of peers.
class HostReadsTest : public HostCollectivesTest,
                      public ::testing::WithParamInterface<const char*> {
 protected:
  HostReadsTest() { ::setenv("DISTRUN_SHM_READ_PEERS", GetParam(), 1); }
  ~HostReadsTest() override { ::unsetenv("DISTRUN_SHM_READ_PEERS"); }
};
INSTANTIATE_TEST_SUITE_P(, HostReadsTest, ::testing::Values("0", "1"));

TEST_P(HostReadsTest, AllGatherCopiesEachRanksBytesToAll) {
  with_all_sizes([](const Run& of) {
    of([&](Collectives& collectives, int rank, Watch& watch) {
      const Bytes mine = bytes_of_rank(rank, 0, of.bytes);
      auto all = of.buffers();
      collectives.all_gather(mine.data(), addresses_of(all), of.bytes, watch);
      for (int from = 0; from < of.ranks; ++from) {
        EXPECT_EQ(all[static_cast<std::size_t>(from)], bytes_of_rank(from, 0, of.bytes)) << from;
      }
    });
  });
}

TEST_F(HostCollectivesTest, GatherCopiesEachRanksBytesToTheRoot) {
  with_all_sizes([](const Run& of) {
    of([&](Collectives& collectives, int rank, Watch& watch) {
      const Bytes mine = bytes_of_rank(rank, 0, of.bytes);
      auto all = rank == 0 ? of.buffers() : std::vector<Bytes>();
      collectives.gather(mine.data(), addresses_of(all), of.bytes, 0, watch);
      for (std::size_t from = 0; from < all.size(); ++from) {
        EXPECT_EQ(all[from], bytes_of_rank(static_cast<int>(from), 0, of.bytes)) << from;
      }
    });
  });
}

TEST_F(HostCollectivesTest, ScatterGivesEachRankItsBytes) {
  with_all_sizes([](const Run& of) {
    of([&](Collectives& collectives, int rank, Watch& watch) {
      std::vector<Bytes> all;
      for (int to = 0; to < of.ranks && rank == 0; ++to)
        all.push_back(bytes_of_rank(0, to, of.bytes));
      Bytes mine(of.bytes);
      collectives.scatter(const_addresses_of(all), mine.data(), of.bytes, 0, watch);
      EXPECT_EQ(mine, bytes_of_rank(0, rank, of.bytes));
    });
  });
}

TEST_F(HostCollectivesTest, ReduceScatterGivesEachRankItsPartOfTheSum) {
  with_all_sizes([](const Run& of) {
    of([&](Collectives& collectives, int rank, Watch& watch) {
      // Rank r adds what values_of_rank(r) says to the part of rank 0, twice that to that of rank
      // 1, ….
      std::vector<Values> inputs;
      std::vector<const std::byte*> addresses;
      for (int to = 0; to < of.ranks; ++to) {
        Values one = values_of_rank(rank, of.count());
        for (std::int32_t& value : one) value *= to + 1;
        inputs.push_back(std::move(one));
        addresses.push_back(bytes_in(inputs.back()));
      }
      Values mine(of.count());
      collectives.reduce_scatter(addresses, bytes_in(mine), of.count(), kSumOfInts, watch);
      Values expected = sum_of_all(of.ranks, of.count());
      for (std::int32_t& value : expected) value *= rank + 1;
      EXPECT_EQ(mine, expected);
    });
  });
}

TEST_P(HostReadsTest, AllToAllSendsPartsOfDifferentSizes) {
  with_all_sizes([](const Run& of) {
    const auto size = [&](int from, int to) {
      return (of.bytes + static_cast<std::size_t>(from)) / static_cast<std::size_t>(to + 1);
    };
    of([&](Collectives& collectives, int rank, Watch& watch) {
      std::vector<Bytes> sent, received;
      std::vector<Collectives::ConstPart> inputs;
      std::vector<Collectives::Part> outputs;
      for (int peer = 0; peer < of.ranks; ++peer) {
        sent.push_back(bytes_of_rank(rank, peer, size(rank, peer)));
        received.emplace_back(size(peer, rank));
        inputs.push_back({sent.back().data(), sent.back().size()});
        outputs.push_back({received.back().data(), received.back().size()});
      }
      collectives.all_to_all(inputs, outputs, watch);
      for (int from = 0; from < of.ranks; ++from) {
        EXPECT_EQ(received[static_cast<std::size_t>(from)],
                  bytes_of_rank(from, rank, size(from, rank)))
            << from;
      }
    });
  });
}

// Some emulators and containers lack the system call.
bool can_read_processes() {
  char from = 1, to = 0;
  const iovec local{&to, 1}, remote{&from, 1};
  return ::process_vm_readv(::getpid(), &local, 1, &remote, 1, 0) == 1;
}

TEST_P(HostReadsTest, RanksReadUnlessItIsForbidden) {
  if (!can_read_processes()) GTEST_SKIP() << "process_vm_readv() is not permitted";
  const bool is_allowed = std::string(GetParam()) == "1";
  const auto errors = run_as_ranks(2, [&](HostGroup& group, int) {
    group.run_on_host(
        in_time(), [&](HostCollectives& all, Watch&) { EXPECT_EQ(all.reads_peers(), is_allowed); });
  });
  EXPECT_THAT(errors, Each(""));
}

TEST_P(HostReadsTest, AnAllToAllMayWriteToItsInputs) {
  constexpr std::size_t kBytes = 100'000;
  const auto errors = run_as_ranks(3, [&](HostGroup& group, int rank) {
    std::vector<Bytes> parts;
    std::vector<Collectives::ConstPart> inputs;
    std::vector<Collectives::Part> outputs;
    for (int to = 0; to < 3; ++to) parts.push_back(bytes_of_rank(rank, to, kBytes));
    for (Bytes& part : parts) {
      inputs.push_back({part.data(), kBytes});
      outputs.push_back({part.data(), kBytes});
    }
    group.run(in_time(),
              [&](Collectives& all, Watch& watch) { all.all_to_all(inputs, outputs, watch); });
    for (int from = 0; from < 3; ++from) {
      EXPECT_EQ(parts[static_cast<std::size_t>(from)], bytes_of_rank(from, rank, kBytes));
    }
  });
  EXPECT_THAT(errors, Each(""));
}

constexpr std::size_t kReadTestBytes = 200'000;

// Other processes can map it, but the kernel reads it for none.
class SecretMemory {
 public:
  SecretMemory() : file_(static_cast<int>(::syscall(SYS_memfd_secret, 0))) {
    if (!file_ || ::ftruncate(file_.get(), kReadTestBytes) != 0) return;
    void* const data =
        ::mmap(nullptr, kReadTestBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0);
    if (data != MAP_FAILED) data_ = static_cast<std::byte*>(data);
  }
  ~SecretMemory() {
    if (data_ != nullptr) ::munmap(data_, kReadTestBytes);
  }
  SecretMemory(const SecretMemory&) = delete;
  SecretMemory& operator=(const SecretMemory&) = delete;

  std::byte* data() const { return data_; }

 private:
  const UniqueFd file_;
  std::byte* data_ = nullptr;
};

TEST_F(HostCollectivesTest, MemoryThatTheKernelDoesNotReadGoesThroughSlots) {
  const SecretMemory secret;
  if (secret.data() == nullptr) GTEST_SKIP() << "this kernel has no memfd_secret()";
  const auto errors = run_as_ranks(2, [&](HostGroup& group, int rank) {
    Bytes mine = bytes_of_rank(rank, 0, kReadTestBytes);
    if (rank == 1) std::memcpy(secret.data(), mine.data(), mine.size());
    const std::byte* const data = rank == 1 ? secret.data() : mine.data();
    const std::size_t half = kReadTestBytes / 2;
    for (int time = 0; time < 2; ++time) {
      std::vector<Bytes> all(2, Bytes(kReadTestBytes)), halves(2, Bytes(half));
      group.run_on_host(in_time(), [&](HostCollectives& its, Watch& watch) {
        its.all_gather(data, addresses_of(all), kReadTestBytes, watch);
        its.all_to_all({{data, half}, {data + half, half}},
                       {{halves[0].data(), half}, {halves[1].data(), half}}, watch);
        EXPECT_FALSE(its.reads_peers());
      });
      for (int from = 0; from < 2; ++from) {
        const auto at = static_cast<std::size_t>(from);
        const Bytes theirs = bytes_of_rank(from, 0, kReadTestBytes);
        EXPECT_EQ(all[at], theirs);
        const auto begin = theirs.begin() + static_cast<std::ptrdiff_t>(half) * rank;
        EXPECT_EQ(halves[at], Bytes(begin, begin + static_cast<std::ptrdiff_t>(half)));
      }
    }
  });
  EXPECT_THAT(errors, Each(""));
}

// Rank 0 gives up while it waits for rank 1, and the program goes on with rank 0's data.
TEST_F(HostCollectivesTest, ARankThatFailsWhileOthersReadFailsTheOthers) {
  if (!can_read_processes()) GTEST_SKIP() << "process_vm_readv() is not permitted";
  std::latch has_failed(1);
  const auto errors = run_as_ranks(2, [&](HostGroup& group, int rank) {
    Bytes mine = bytes_of_rank(rank, 0, kReadTestBytes);
    std::vector<Bytes> all(2, Bytes(kReadTestBytes));
    const auto gather = [&](Collectives& collectives, Watch& watch) {
      collectives.all_gather(mine.data(), addresses_of(all), mine.size(), watch);
    };
    if (rank == 0) {
      EXPECT_THROW(group.run(std::chrono::steady_clock::now() + milliseconds(200), gather),
                   HostError);
      has_failed.count_down();
      return;
    }
    group.run(in_time(), [&](Collectives& collectives, Watch& watch) {
      Interrupted its(watch, [&] { has_failed.wait(); });
      gather(collectives, its);
    });
  });
  EXPECT_EQ(errors[0], "");
  EXPECT_THAT(errors[1], StartsWith("a call failed on rank 0: timed out"));
}

TEST_F(HostCollectivesTest, AnAbortAfterACallDoesNotFailItOnOtherRanks) {
  for (int time = 0; time < 100; ++time) {
    const auto errors = run_as_ranks(2, [&](HostGroup& group, int rank) {
      const Bytes mine(kReadTestBytes);
      std::vector<Bytes> all(2, Bytes(kReadTestBytes));
      group.run(in_time(), [&](Collectives& collectives, Watch& watch) {
        collectives.all_gather(mine.data(), addresses_of(all), mine.size(), watch);
      });
      if (rank == 0) group.abort();
    });
    ASSERT_THAT(errors, Each(""));
  }
}

TEST(HostBarrierTest, ARankLeavesABarrierOnlyWhenAllHaveCome) {
  constexpr int kRanks = 4, kTimes = 200;
  std::atomic<int> arrived = 0;
  const auto errors = run_as_ranks(kRanks, [&](HostGroup& group, int) {
    for (int time = 1; time <= kTimes; ++time) {
      ++arrived;
      group.run(in_time(), [](Collectives& all, Watch& watch) { all.barrier(watch); });
      EXPECT_GE(arrived, time * kRanks);
    }
  });
  EXPECT_THAT(errors, Each(""));
}

TEST(HostErrorsTest, DifferentCallsAreAnErrorOnAllRanks) {
  const auto errors = run_as_ranks(2, [](HostGroup& group, int rank) {
    group.run(in_time(), [&](Collectives& all, Watch& watch) {
      Bytes data(8);
      if (rank == 0) {
        all.broadcast(data.data(), data.size(), 1, watch);
      } else {
        all.all_reduce(data.data(), 2, {Element::kFloat32, Reduction::kMax}, watch);
      }
    });
  });
  EXPECT_THAT(errors, Each(AllOf(HasSubstr("the ranks make different calls: rank "),
                                 HasSubstr("broadcast of 8 bytes, root 1"),
                                 HasSubstr("all_reduce of 8 bytes of float with MAX"))));
}

// Rank 1 does not come.
TEST(HostErrorsTest, ProlongedWaitsDoNotAddUp) {
  std::promise<void> is_over;
  const auto over = is_over.get_future().share();
  const auto errors = run_as_ranks(2, [&](HostGroup& group, int rank) {
    if (rank == 1) return over.wait();
    const auto begin = HostGroup::Clock::now();
    try {
      group.run(begin + std::chrono::milliseconds(100), [&](Collectives& all, Watch& watch) {
        for (int time = 0; time < 1000; ++time) watch.prolong(std::chrono::milliseconds(100));
        all.barrier(watch);
      });
    } catch (const HostError&) {
      EXPECT_LT(HostGroup::Clock::now() - begin, std::chrono::seconds(30));
      is_over.set_value();
      throw;
    }
  });
  EXPECT_THAT(errors[0], HasSubstr("rank 1 did not come"));
}

// A call of several collectives compares itself first.
TEST(HostErrorsTest, ComparedCallsMayDifferInTheirReductionOnly) {
  const auto errors = run_as_ranks(2, [](HostGroup& group, int rank) {
    group.run_on_host(in_time(), [&](HostCollectives& all, Watch& watch) {
      const auto reduction = rank == 0 ? Reduction::kSum : Reduction::kAverage;
      all.compare(CallKind::kReduce, 2, {Element::kFloat32, reduction}, 1, watch);
    });
  });
  EXPECT_THAT(errors, Each(AllOf(HasSubstr("reduce of 8 bytes of float with SUM, root 1"),
                                 HasSubstr("reduce of 8 bytes of float with AVG, root 1"))));
}

TEST(HostErrorsTest, DifferentSizesAreAnErrorOnAllRanks) {
  const auto errors = run_as_ranks(3, [](HostGroup& group, int rank) {
    group.run(in_time(), [&](Collectives& all, Watch& watch) {
      Bytes data(rank == 1 ? 2'000'000 : 4'000'000);
      all.broadcast(data.data(), data.size(), 0, watch);
    });
  });
  EXPECT_THAT(errors, Each(AllOf(HasSubstr("4000000 bytes"), HasSubstr("2000000 bytes"))));
}

TEST(HostErrorsTest, AnAllToAllWhoseSizesDisagreeIsAnErrorThatNamesBoth) {
  const auto errors = run_as_ranks(2, [](HostGroup& group, int rank) {
    group.run(in_time(), [&](Collectives& all, Watch& watch) {
      Bytes in(8), out(16);
      const std::size_t expected = rank == 1 ? 6 : 4;
      all.all_to_all({{in.data(), 4}, {in.data() + 4, 4}},
                     {{out.data(), rank == 1 ? expected : 4}, {out.data() + 8, 4}}, watch);
    });
  });
  EXPECT_EQ(errors[1], "all_to_all: rank 0 sends 4 bytes to rank 1, whose output for them has 6");
}

// The error of a rank that looks whether a call has failed on another one, or "".
std::string error_after(const std::function<void(HostGroup&)>& end_of_rank_1) {
  std::latch has_ended(2);
  const auto errors = run_as_ranks(2, [&](HostGroup& group, int rank) {
    if (rank == 1) end_of_rank_1(group);
    has_ended.arrive_and_wait();
    if (rank == 0) {
      group.run(in_time(), [](Collectives&, Watch& watch) { watch.check_failed(); });
    }
  });
  return errors[0];
}

// In the middle of a call, other ranks may read data that the program has changed since.
TEST(HostErrorsTest, ARankThatFailedOrAbortedInvalidatesWhatWasReadFromIt) {
  EXPECT_EQ(error_after([](HostGroup&) {}), "");
  EXPECT_EQ(error_after([](HostGroup& group) { group.abort(); }), "");  // After its last call.
  EXPECT_EQ(error_after([](HostGroup& group) {
              const auto abort = [&](Collectives&, Watch&) { group.abort(); };
              group.run(in_time(), abort);
            }),
            "rank 1 has left the group");
  EXPECT_EQ(error_after([](HostGroup& group) {
              const auto fail = [](Collectives&, Watch&) {
                throw std::runtime_error("no memory\nframe #0");
              };
              EXPECT_THROW(group.run(in_time(), fail), std::runtime_error);
            }),
            "a call failed on rank 1: no memory");
}

TEST(CallFactsTest, AreDescribed) {
  CallFacts facts{.bytes = 16, .number = 7, .root = 2};
  facts.kind = static_cast<std::uint8_t>(CallKind::kReduce);
  const auto described_as = [&](Element element, Reduction reduction) {
    facts.element = static_cast<std::uint8_t>(element);
    facts.reduction = static_cast<std::uint8_t>(reduction);
    return described(facts);
  };
  EXPECT_EQ(described_as(Element::kComplexHalf, Reduction::kSum),
            "call 7, reduce of 16 bytes of complex half with SUM, root 2");
  EXPECT_EQ(described_as(Element::kComplex64, Reduction::kAverage),
            "call 7, reduce of 16 bytes of complex float with AVG, root 2");
  EXPECT_EQ(described_as(Element::kComplex128, Reduction::kBitwiseXor),
            "call 7, reduce of 16 bytes of complex double with BXOR, root 2");
  // A rank with another version can have written these.
  facts.kind = 99;
  EXPECT_EQ(
      described_as(static_cast<Element>(99), static_cast<Reduction>(99)),
      "call 7, an unknown call of 16 bytes of an unknown dtype with an unknown reduction, root 2");
}

// A barrier's error, or "".
std::string barrier_error(HostGroup& group, milliseconds timeout) {
  try {
    group.run(std::chrono::steady_clock::now() + timeout,
              [](Collectives& all, Watch& watch) { all.barrier(watch); });
  } catch (const HostError& error) {
    return error.what();
  }
  return "";
}

TEST(HostErrorsTest, ATimeOutNamesTheRanksThatDidNotComeAndFailsTheirNextCall) {
  std::latch timed_out(1);
  const auto errors = run_as_ranks(3, [&](HostGroup& group, int rank) {
    if (rank == 1) {
      const std::string error = barrier_error(group, milliseconds(100));
      timed_out.count_down();
      EXPECT_THAT(error, MatchesRegex("timed out after [0-9]+ms: ranks 0, 2 did not come"));
      EXPECT_EQ(barrier_error(group, kLong), "an earlier call of the group failed: " + error);
    } else {
      timed_out.wait();
      const auto is_of_rank_1 = HasSubstr("a call failed on rank 1: timed out after ");
      // Rank 1 had come, so the barrier may pass.
      EXPECT_THAT(barrier_error(group, kLong), AnyOf("", is_of_rank_1));
      EXPECT_THAT(barrier_error(group, kLong), is_of_rank_1);
    }
  });
  EXPECT_THAT(errors, Each(""));
}

// Rank 0 comes, and fails while it waits for rank 2, which does not come.
TEST(HostErrorsTest, AFailureEndsTheWaitsOfRanksThatCame) {
  std::latch failed(2);
  const auto errors = run_as_ranks(3, [&](HostGroup& group, int rank) {
    if (rank == 0) {
      EXPECT_THAT(barrier_error(group, milliseconds(100)), HasSubstr("timed out after "));
    } else if (rank == 1) {
      EXPECT_THAT(barrier_error(group, kLong), StartsWith("a call failed on rank 0: timed out"));
    }
    if (rank != 2) failed.count_down();
    failed.wait();
  });
  EXPECT_THAT(errors, Each(""));
}

TEST(HostErrorsTest, AWaitEndsWhenTheOtherRankLeaves) {
  const auto errors = run_as_ranks(2, [&](HostGroup& group, int rank) {
    if (rank == 1) return;
    EXPECT_EQ(barrier_error(group, kLong), "rank 1 has left the group");
  });
  EXPECT_THAT(errors, Each(""));
}

TEST(HostErrorsTest, AnyExceptionInACallFailsTheCallsOfOtherRanks) {
  const auto errors = run_as_ranks(2, [&](HostGroup& group, int rank) {
    if (rank == 1) {
      EXPECT_EQ(barrier_error(group, kLong), "a call failed on rank 0: no memory");
      return;
    }
    EXPECT_THROW(group.run(in_time(), [](auto&, auto&) { throw std::runtime_error("no memory"); }),
                 std::runtime_error);
    EXPECT_EQ(barrier_error(group, kLong), "an earlier call of the group failed: no memory");
  });
  EXPECT_THAT(errors, Each(""));
}

TEST(HostErrorsTest, SoDoesAnExceptionWithoutAText) {
  const auto errors = run_as_ranks(2, [&](HostGroup& group, int rank) {
    if (rank == 1) {
      EXPECT_EQ(barrier_error(group, kLong),
                "a call failed on rank 0: an exception without a text");
      return;
    }
    EXPECT_THROW(group.run(in_time(), [](auto&, auto&) { throw 1; }), int);
  });
  EXPECT_THAT(errors, Each(""));
}

TEST(HostErrorsTest, AbortEndsTheCallThatRunsAndAllLaterOnes) {
  std::latch aborted(1);
  const auto errors = run_as_ranks(2, [&](HostGroup& group, int rank) {
    if (rank == 1) {
      aborted.wait();  // Else rank 0 sees that it left.
      return;
    }
    std::thread other([&] { group.abort(); });
    EXPECT_EQ(barrier_error(group, kLong), "the group has been aborted");
    other.join();
    aborted.count_down();
    EXPECT_EQ(barrier_error(group, kLong), "the group has been aborted");
  });
  EXPECT_THAT(errors, Each(""));
}

TEST(HostBarrierTest, ManyMoreRanksThanCpusMeetManyTimes) {
  const auto errors = run_as_ranks(12, [](HostGroup& group, int rank) {
    for (int time = 0; time < 300; ++time) {
      group.run(in_time(), [&](Collectives& all, Watch& watch) {
        std::int64_t sum = rank;
        all.all_reduce(reinterpret_cast<std::byte*>(&sum), 1, {Element::kInt64, Reduction::kSum},
                       watch);
        EXPECT_EQ(sum, 66);
      });
    }
  });
  EXPECT_THAT(errors, Each(""));
}

}  // namespace
}  // namespace distrun::shm
