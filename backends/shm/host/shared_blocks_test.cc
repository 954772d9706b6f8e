#include "backends/shm/host/shared_blocks.h"

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/shm/host/host_error.h"
#include "backends/shm/host/huge_pages.h"
#include "backends/shm/host/test/huge_pages_seen.h"
#include "backends/shm/host/test/threads_as_ranks.h"
#include "backends/shm/test/mapped_files.h"

namespace distrun::shm {
namespace {

using ::testing::Each;

constexpr MemorySizes kTwoRanks{.ranks = 2, .slot_bytes = kPageBytes, .ring_bytes = kPageBytes};
constexpr std::size_t kBytes = 3 * kPageBytes + 100;
constexpr const char* kFileName = "/memfd:distrun shm (deleted)";

// Two ranks, each of which has the regions of both.
class SharedBlocksTest : public ::testing::Test {
 protected:
  std::vector<RankRegion> regions() const {
    std::vector<RankRegion> all;
    for (const int rank : {0, 1}) {
      UniqueFd file(::fcntl(files_[static_cast<std::size_t>(rank)].get(), F_DUPFD_CLOEXEC, 0));
      all.push_back(RankRegion::map(std::move(file), rank, kTwoRanks).value());
    }
    return all;
  }

  std::string error_of(const BlockPlace& place, std::size_t bytes) {
    try {
      ones.data_of(0, place, bytes);
      return "";
    } catch (const HostError& error) {
      return error.what();
    }
  }

  std::int64_t allocated_bytes() const {
    struct stat status {};
    EXPECT_EQ(::fstat(files_[0].get(), &status), 0);
    return status.st_blocks * 512;
  }

 private:
  static std::vector<UniqueFd> make_files() {
    std::vector<UniqueFd> all;
    for (const int rank : {0, 1}) {
      const auto region = RankRegion::create(rank, kTwoRanks).value();
      all.emplace_back(::fcntl(region.descriptor(), F_DUPFD_CLOEXEC, 0));
    }
    return all;
  }

  const std::vector<UniqueFd> files_ = make_files();
  const std::vector<RankRegion> zeros_regions_ = regions(), ones_regions_ = regions();

 protected:
  SharedBlocks zeros{zeros_regions_, 0}, ones{ones_regions_, 1};
};

TEST_F(SharedBlocksTest, APeerReadsAndWritesABlock) {
  const auto block = zeros.allocate(kBytes).value();
  EXPECT_EQ(std::count(block->data(), block->data() + kBytes, std::byte{0}), kBytes);
  block->data()[kBytes - 1] = std::byte{42};
  const BlockPlace place = zeros.place_of(block->data() + 10, kBytes - 10);
  std::byte* const seen = ones.data_of(0, place, kBytes - 10);
  EXPECT_EQ(seen[kBytes - 11], std::byte{42});
  seen[0] = std::byte{43};
  EXPECT_EQ(block->data()[10], std::byte{43});
}

TEST_F(SharedBlocksTest, BytesOutsideOfBlocksHaveNoPlace) {
  std::vector<std::byte> elsewhere(10);
  EXPECT_FALSE(zeros.place_of(elsewhere.data(), 10));
  const auto block = zeros.allocate(kBytes).value();
  EXPECT_FALSE(zeros.place_of(elsewhere.data(), 10));
  EXPECT_FALSE(zeros.place_of(block->data() - 1, 10));
  EXPECT_TRUE(zeros.place_of(block->data(), 4 * kPageBytes));
  EXPECT_FALSE(zeros.place_of(block->data(), 4 * kPageBytes + 1));
  EXPECT_FALSE(zeros.place_of(block->data() + 4 * kPageBytes, 1));
  EXPECT_FALSE(ones.place_of(block->data(), 10));
}

TEST_F(SharedBlocksTest, AFreedBlockReturnsItsMemoryAndItsPlaceIsNotUsedAgain) {
  const auto before = allocated_bytes();
  auto block = zeros.allocate(kBytes).value();
  const BlockPlace first = zeros.place_of(block->data(), kBytes);
  const std::byte* const data = block->data();
  EXPECT_GE(allocated_bytes(), before + static_cast<std::int64_t>(kBytes));
  ones.data_of(0, first, kBytes);
  block.reset();
  EXPECT_EQ(allocated_bytes(), before);
  EXPECT_FALSE(zeros.place_of(data, kBytes));
  block = zeros.allocate(kBytes).value();
  EXPECT_NE(zeros.place_of(block->data(), kBytes).block, first.block);
}

TEST_F(SharedBlocksTest, LargeBlocksBeginAtHugePages) {
  const auto small = zeros.allocate(kBytes).value();
  const auto large = zeros.allocate(kHugeBytes).value();
  const auto after = zeros.allocate(kBytes).value();
  const BlockPlace place = zeros.place_of(large->data(), kHugeBytes);
  std::byte* const seen = ones.data_of(0, place, kHugeBytes);
  for (const auto* const data : {large->data(), seen}) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(data) % kHugeBytes, 0);
  }
  EXPECT_EQ(place.block % kHugeBytes, 0);
  EXPECT_EQ(zeros.place_of(after->data(), kBytes).block, place.block + kHugeBytes);
  seen[kHugeBytes - 1] = std::byte{42};
  EXPECT_EQ(large->data()[kHugeBytes - 1], std::byte{42});
  EXPECT_EQ(after->data()[0], std::byte{0});
}

TEST_F(SharedBlocksTest, LargeBlocksAreInHugePages) {
  if (const auto why = test::why_no_huge_pages(); !why.empty()) GTEST_SKIP() << why;
  const long expected = 2 * kHugeBytes;
  long seen_here = 0, seen_there = 0;
  // A kernel that is busy may leave out some of the pages.
  for (int tries = 0; tries < 100 && seen_there != expected; ++tries) {
    const auto block = zeros.allocate(2 * kHugeBytes).value();
    std::byte* const theirs =
        ones.data_of(0, zeros.place_of(block->data(), 2 * kHugeBytes), 2 * kHugeBytes);
    theirs[0] = theirs[kHugeBytes] = std::byte{42};
    seen_here = test::huge_bytes_at(block->data());
    seen_there = test::huge_bytes_at(theirs);
  }
  EXPECT_EQ(seen_here, expected);
  EXPECT_EQ(seen_there, expected);
}

TEST_F(SharedBlocksTest, AForkedChildDoesNotFreeABlock) {
  auto block = zeros.allocate(kBytes).value();
  block->data()[0] = std::byte{42};
  const pid_t child = ::fork();
  if (child == 0) {
    block.reset();
    ::_exit(0);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(block->data()[0], std::byte{42});
}

TEST_F(SharedBlocksTest, ManyBlocksDoNotTakeManyMappings) {
  const std::size_t before = test::mappings_of(kFileName);
  for (int i = 0; i < 2500; ++i) {
    const auto block = zeros.allocate(1).value();
    block->data()[0] = std::byte{42};
    EXPECT_EQ(*ones.data_of(0, zeros.place_of(block->data(), 1), 1), std::byte{42});
  }
  EXPECT_LT(test::mappings_of(kFileName) - before, 1100);
}

TEST_F(SharedBlocksTest, ADetachedBlockKeepsItsContentsToItself) {
  auto block = zeros.allocate(kBytes).value();
  const auto before = test::mapped_file(block->data());
  EXPECT_EQ(before, kFileName);
  block->data()[0] = std::byte{42};
  const BlockPlace place = zeros.place_of(block->data(), kBytes);
  std::byte* const seen = ones.data_of(0, place, kBytes);
  zeros.detach(block->data() + 10);
  EXPECT_EQ(block->data()[0], std::byte{42});
  block->data()[1] = std::byte{44};
  EXPECT_EQ(seen[0], std::byte{42});
  EXPECT_EQ(seen[1], std::byte{0});
  seen[0] = std::byte{43};
  EXPECT_EQ(block->data()[0], std::byte{42});
  EXPECT_FALSE(zeros.place_of(block->data(), kBytes));
  const std::byte* const data = block->data();
  block.reset();
  EXPECT_EQ(test::mapped_file(data), "");
}

TEST_F(SharedBlocksTest, APlaceThatCannotBeIsAnError) {
  const auto block = zeros.allocate(kBytes).value();
  const BlockPlace place = zeros.place_of(block->data(), kBytes);
  const auto text = [](std::size_t bytes, const char* what) {
    return "a peer's tensor of " + std::to_string(bytes) + " bytes: " + what;
  };
  EXPECT_EQ(error_of(place, kBytes), "");
  EXPECT_EQ(error_of(place, place.block_bytes + 1),
            text(place.block_bytes + 1, "the tensor does not fit into its block"));
  const auto not_in_file = text(10, "the block is not in the file");
  BlockPlace other = place;
  other.block_bytes += kPageBytes;
  EXPECT_EQ(error_of(other, 10), not_in_file);
  other = place;
  other.block = 0;  // The memory of the rank itself.
  EXPECT_EQ(error_of(other, 10), not_in_file);
  other = place;
  other.block += 1;
  EXPECT_EQ(error_of(other, 10), not_in_file);
  other = place;
  other.block = ~std::uint64_t{0} - kPageBytes + 1;
  EXPECT_EQ(error_of(other, 10), not_in_file);
}

TEST_F(SharedBlocksTest, ALimitOfFileSizesIsAnErrorAndNotASignal) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{.rlim_cur = 1000, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto block = zeros.allocate(100);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  ASSERT_FALSE(block);
  EXPECT_EQ(block.error().message,
            "share 100 bytes of tensors: fallocate: file too large: raise `ulimit -f`");
}

// Room for half a block.
class LimitOfAddresses {
 public:
  explicit LimitOfAddresses(std::size_t block) : block_(block) {
    std::size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    EXPECT_EQ(::getrlimit(RLIMIT_AS, &before_), 0);
    const rlimit small{.rlim_cur = pages * kPageBytes + block / 2, .rlim_max = before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_AS, &small), 0);
  }
  ~LimitOfAddresses() { ::setrlimit(RLIMIT_AS, &before_); }
  LimitOfAddresses(const LimitOfAddresses&) = delete;
  LimitOfAddresses& operator=(const LimitOfAddresses&) = delete;

  // Some emulators ignore it.
  bool has_effect() const {
    void* const memory =
        ::mmap(nullptr, block_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, /*fd=*/-1, /*offset=*/0);
    if (memory == MAP_FAILED) return true;
    ::munmap(memory, block_);
    return false;
  }

 private:
  const std::size_t block_;
  rlimit before_{};
};
const char* const kNoLimit = "the limit of addresses (RLIMIT_AS) has no effect here";

TEST_F(SharedBlocksTest, WithoutRoomForABlockItsMemoryReturns) {
  constexpr std::size_t kLarge = std::size_t{64} << 20;
  const auto before = allocated_bytes();
  const LimitOfAddresses limit(kLarge);
  if (!limit.has_effect()) GTEST_SKIP() << kNoLimit;
  EXPECT_EQ(zeros.allocate(kLarge).error().message,
            "share 67108864 bytes of tensors: mmap: cannot allocate memory: raise `ulimit -v`");
  EXPECT_EQ(allocated_bytes(), before);
}

TEST_F(SharedBlocksTest, ABlockThatFailsTakesNoPlaceInTheFile) {
  constexpr std::size_t kLarge = std::size_t{64} << 20;
  const auto place = [&] {
    const auto block = zeros.allocate(kBytes).value();
    return zeros.place_of(block->data(), kBytes).block;
  };
  const auto before = place();
  {
    const LimitOfAddresses limit(kLarge);
    if (!limit.has_effect()) GTEST_SKIP() << kNoLimit;
    EXPECT_FALSE(zeros.allocate(kLarge));
  }
  EXPECT_EQ(place(), before + 4 * kPageBytes);
}

TEST_F(SharedBlocksTest, WithoutRoomForAPeersBlockTheErrorSaysWhatToDo) {
  constexpr std::size_t kLarge = std::size_t{64} << 20;
  const auto block = zeros.allocate(kLarge).value();
  const BlockPlace place = zeros.place_of(block->data(), kLarge);
  const LimitOfAddresses limit(kLarge);
  if (!limit.has_effect()) GTEST_SKIP() << kNoLimit;
  EXPECT_EQ(error_of(place, kLarge),
            "a peer's tensor of 67108864 bytes: mmap: Cannot allocate memory: raise `ulimit -v`");
}

TEST_F(SharedBlocksTest, ABlockMayOutliveItsGroup) {
  std::unique_ptr<SharedBlock> block;
  const auto errors = run_as_ranks(2, [&](HostGroup& group, int rank) {
    if (rank == 0) block = group.blocks().allocate(kBytes).value();
  });
  EXPECT_THAT(errors, Each(""));
  block->data()[kBytes - 1] = std::byte{42};
  EXPECT_EQ(block->data()[kBytes - 1], std::byte{42});
}

}  // namespace
}  // namespace distrun::shm
