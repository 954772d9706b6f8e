#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <latch>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "backends/shm/host/host_collectives.h"
#include "backends/shm/host/host_error.h"
#include "backends/shm/host/test/host_collectives_fixture.h"
#include "common/os/cpu_set.h"
#include "common/os/unique_fd.h"

namespace distrun::shm {
namespace {

using ::testing::Each;
using ::testing::StartsWith;

class ReadingSetting {
 public:
  explicit ReadingSetting(const char* value) { ::setenv("DISTRUN_SHM_READ_PEERS", value, 1); }
  ~ReadingSetting() { ::unsetenv("DISTRUN_SHM_READ_PEERS"); }
  ReadingSetting(const ReadingSetting&) = delete;
  ReadingSetting& operator=(const ReadingSetting&) = delete;
};

// Without and with reads from the memory of peers.
class HostReadsTest : public HostCollectivesTest,
                      public ::testing::WithParamInterface<const char*> {
 protected:
  const ReadingSetting setting_ = ReadingSetting(GetParam());
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

void all_to_all(Collectives& collectives, int rank, int ranks,
                const std::function<std::size_t(int, int)>& size, Watch& watch) {
  std::vector<Bytes> sent, received;
  std::vector<Collectives::ConstPart> inputs;
  std::vector<Collectives::Part> outputs;
  for (int peer = 0; peer < ranks; ++peer) {
    sent.push_back(bytes_of_rank(rank, peer, size(rank, peer)));
    received.emplace_back(size(peer, rank));
    inputs.push_back({sent.back().data(), sent.back().size()});
    outputs.push_back({received.back().data(), received.back().size()});
  }
  collectives.all_to_all(inputs, outputs, watch);
  for (int from = 0; from < ranks; ++from) {
    EXPECT_EQ(received[static_cast<std::size_t>(from)], bytes_of_rank(from, rank, size(from, rank)))
        << from;
  }
}

TEST_P(HostReadsTest, AllToAllSendsPartsOfDifferentSizes) {
  with_all_sizes([](const Run& of) {
    const auto size = [&](int from, int to) {
      return (of.bytes + static_cast<std::size_t>(from)) / static_cast<std::size_t>(to + 1);
    };
    of([&](Collectives& collectives, int rank, Watch& watch) {
      all_to_all(collectives, rank, of.ranks, size, watch);
    });
  });
}

TEST_P(HostReadsTest, AllToAllSendsEqualPartsOfOneRankAndDifferentOnesOfOthers) {
  with_all_sizes([](const Run& of) {
    const auto size = [&](int from, int to) {
      return of.bytes + static_cast<std::size_t>(std::min(from, to) * (1 + from));
    };
    of([&](Collectives& collectives, int rank, Watch& watch) {
      all_to_all(collectives, rank, of.ranks, size, watch);
    });
  });
}

// Then a part does not fit into a rank's share of a slot.
TEST_P(HostReadsTest, AllToAllOfManyRanksTakesSeveralPhases) {
  constexpr int kRanks = 40;
  for (const bool are_equal : {true, false}) {
    const auto size = [are_equal](int from, int to) {
      return kReadBytes - (are_equal || from == 0 || to == 0 ? 0U : 1U);
    };
    const auto errors = run_as_ranks(kRanks, [&](HostGroup& group, int rank) {
      group.run(in_time(), [&](Collectives& collectives, Watch& watch) {
        all_to_all(collectives, rank, kRanks, size, watch);
      });
    });
    EXPECT_THAT(errors, Each("")) << are_equal;
  }
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

TEST_P(HostReadsTest, ARankAloneReadsAndMeasuresNothing) {
  const auto errors = run_as_ranks(1, [](HostGroup& group, int) {
    group.run_on_host(in_time(),
                      [](HostCollectives& all, Watch&) { EXPECT_FALSE(all.reads_peers()); });
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

TEST(HostPeerReadsTest, MemoryThatTheKernelDoesNotReadGoesThroughSlots) {
  const ReadingSetting always("1");
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
        const std::array<Collectives::ConstPart, 2> inputs = {{{data, half}, {data + half, half}}};
        const std::array<Collectives::Part, 2> outputs = {
            {{halves[0].data(), half}, {halves[1].data(), half}}};
        its.all_to_all(inputs, outputs, watch);
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

std::vector<Collectives::ConstPart> halves_of(const Bytes& data) {
  const std::size_t half = data.size() / 2;
  return {{data.data(), half}, {data.data() + half, half}};
}

std::vector<Collectives::Part> halves_of(Bytes& data) {
  const std::size_t half = data.size() / 2;
  return {{data.data(), half}, {data.data() + half, half}};
}

// Rank 0 gives up while it waits for rank 1, and the program goes on with rank 0's data.
void expect_that_reads_fail(
    const std::function<void(Collectives&, const Bytes&, Bytes&, Watch&)>& call) {
  std::latch has_failed(1);
  const auto errors = run_as_ranks(2, [&](HostGroup& group, int rank) {
    const Bytes sent = bytes_of_rank(rank, 0, kReadTestBytes);
    Bytes received(2 * kReadTestBytes);
    if (rank == 0) {
      EXPECT_THROW(group.run(std::chrono::steady_clock::now() + milliseconds(200),
                             [&](Collectives& collectives, Watch& watch) {
                               call(collectives, sent, received, watch);
                             }),
                   HostError);
      has_failed.count_down();
      return;
    }
    group.run(in_time(), [&](Collectives& collectives, Watch& watch) {
      Interrupted its(watch, [&] { has_failed.wait(); });
      call(collectives, sent, received, its);
    });
  });
  EXPECT_EQ(errors[0], "");
  EXPECT_THAT(errors[1], StartsWith("a call failed on rank 0: timed out"));
}

TEST(HostPeerReadsTest, ARankThatFailsWhileOthersReadPartsFailsTheOthers) {
  const ReadingSetting always("1");
  if (!can_read_processes()) GTEST_SKIP() << "process_vm_readv() is not permitted";
  expect_that_reads_fail([](auto& collectives, const Bytes& sent, Bytes& received, Watch& watch) {
    received.resize(sent.size());
    collectives.all_to_all(halves_of(sent), halves_of(received), watch);
  });
}

TEST(HostPeerReadsTest, ARankThatFailsWhileOthersReadItsTensorFailsTheOthers) {
  const ReadingSetting always("1");
  if (!can_read_processes()) GTEST_SKIP() << "process_vm_readv() is not permitted";
  if (usable_cpus().size() < 2) GTEST_SKIP() << "two ranks read only with two CPUs";
  expect_that_reads_fail([](auto& collectives, const Bytes& sent, Bytes& received, Watch& watch) {
    const std::array<std::byte*, 2> outputs = {received.data(), received.data() + sent.size()};
    collectives.all_gather(sent.data(), outputs, sent.size(), watch);
  });
}

TEST(HostPeerReadsTest, AnAbortAfterACallDoesNotFailItOnOtherRanks) {
  const ReadingSetting always("1");
  for (int time = 0; time < 100; ++time) {
    const auto errors = run_as_ranks(2, [&](HostGroup& group, int rank) {
      const Bytes sent(kReadTestBytes);
      Bytes received(kReadTestBytes);
      group.run(in_time(), [&](Collectives& collectives, Watch& watch) {
        collectives.all_to_all(halves_of(sent), halves_of(received), watch);
      });
      if (rank == 0) group.abort();
    });
    ASSERT_THAT(errors, Each(""));
  }
}

}  // namespace
}  // namespace distrun::shm
