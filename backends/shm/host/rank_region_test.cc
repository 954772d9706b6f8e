#include "backends/shm/host/rank_region.h"

#include <cstring>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/os/cpu_set.h"

namespace distrun::shm {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

constexpr MemorySizes kSizes{.ranks = 3, .slot_bytes = kPageBytes, .ring_bytes = kPageBytes};

UniqueFd copy_of(int descriptor) { return UniqueFd(::fcntl(descriptor, F_DUPFD_CLOEXEC, 0)); }

std::string map_error(UniqueFd file, int rank, const MemorySizes& sizes) {
  const auto region = RankRegion::map(std::move(file), rank, sizes);
  return region ? "" : region.error().message;
}

TEST(RankRegionTest, TwoMappingsShowTheSameMemory) {
  const auto mine = RankRegion::create(1, kSizes).value();
  const auto theirs = RankRegion::map(copy_of(mine.descriptor()), 1, kSizes).value();
  slot_of(mine.memory(), 1, kSizes)[kPageBytes - 1] = std::byte{42};
  EXPECT_EQ(slot_of(theirs.memory(), 1, kSizes)[kPageBytes - 1], std::byte{42});
  ring_data(theirs.memory(), 2, kSizes)[kPageBytes - 1] = std::byte{43};
  EXPECT_EQ(ring_data(mine.memory(), 2, kSizes)[kPageBytes - 1], std::byte{43});
}

TEST(RankRegionTest, ThePartsDoNotOverlapAndEndWithTheMemory) {
  const auto region = RankRegion::create(0, kSizes).value();
  RankMemory& memory = region.memory();
  auto* begin = reinterpret_cast<std::byte*>(&memory);
  EXPECT_EQ(slot_of(memory, 0, kSizes) - begin, kFirstBytes);
  EXPECT_EQ(slot_of(memory, 1, kSizes) - slot_of(memory, 0, kSizes), kPageBytes);
  EXPECT_EQ(slot_of(memory, 2, kSizes), slot_of(memory, 0, kSizes));
  EXPECT_EQ(small_slot_of(memory, 0, kSizes) - begin, kFirstBytes + 2 * kPageBytes);
  EXPECT_EQ(small_slot_of(memory, 1, kSizes) - small_slot_of(memory, 0, kSizes), kSmallBytes);
  EXPECT_EQ(small_slot_of(memory, kSizes.cells, kSizes), small_slot_of(memory, 0, kSizes));
  EXPECT_EQ(reinterpret_cast<std::byte*>(&ring_of(memory, 0, kSizes)) -
                small_slot_of(memory, kSizes.cells - 1, kSizes),
            kSmallBytes);
  EXPECT_EQ(ring_data(memory, 2, kSizes) + kPageBytes - begin, kSizes.all());
}

TEST(RankRegionTest, TheMemoryCannotBecomeShorter) {
  const auto region = RankRegion::create(0, kSizes).value();
  EXPECT_EQ(::ftruncate(region.descriptor(), 0), -1);
}

TEST(RankRegionTest, AFileThatCanBecomeShorterIsRejected) {
  UniqueFd file(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(file.get(), static_cast<off_t>(kSizes.all())), 0);
  EXPECT_EQ(map_error(std::move(file), 1, kSizes),
            "rank 1 of the group shares memory that may become shorter");
}

TEST(RankRegionTest, MemoryOfAnotherSizeIsRejected) {
  const auto region = RankRegion::create(1, kSizes).value();
  MemorySizes larger = kSizes;
  larger.ring_bytes *= 2;
  EXPECT_THAT(map_error(copy_of(region.descriptor()), 1, larger),
              EndsWith("bytes; expected at least 1130496: do all ranks run the same version?"));
}

TEST(RankRegionTest, MemoryWithAnotherNumberOfCellsIsRejected) {
  const auto region = RankRegion::create(1, kSizes).value();
  MemorySizes other = kSizes;
  other.cells /= 2;
  EXPECT_THAT(map_error(copy_of(region.descriptor()), 1, other),
              EndsWith("of other sizes: do all ranks run the same version of distrun?"));
}

TEST(RankRegionTest, MemoryInAnotherFormatIsRejected) {
  const auto region = RankRegion::create(1, kSizes).value();
  region.memory().heading.version = 99;
  EXPECT_THAT(
      map_error(copy_of(region.descriptor()), 1, kSizes),
      HasSubstr("shares memory in another format: do all ranks run the same version of distrun?"));
}

TEST(RankRegionTest, MemoryOfAnotherRankIsRejected) {
  const auto region = RankRegion::create(1, kSizes).value();
  EXPECT_EQ(map_error(copy_of(region.descriptor()), 2, kSizes),
            "rank 2 of the group shares memory of rank 1 of 3; expected rank 2 of 3");
}

TEST(RankRegionTest, ALimitOfFileSizesIsAnErrorAndNotASignal) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{.rlim_cur = 1000, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto region = RankRegion::create(0, kSizes);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  ASSERT_FALSE(region);
  EXPECT_EQ(region.error().message,
            "share 1118208 bytes of memory: ftruncate: file too large: raise `ulimit -f`");
}

TEST(RankRegionTest, TooManyOpenFilesSayWhichLimitToRaise) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const auto region = RankRegion::create(0, kSizes);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_FALSE(region);
  EXPECT_EQ(region.error().message,
            "share 1118208 bytes of memory: memfd_create: too many open files: raise `ulimit -n`");
}

// Made by a thread that is bound to the CPU.
RankRegion region_on(int cpu, int rank) {
  std::optional<RankRegion> region;
  std::thread([&] {
    ASSERT_TRUE(CpuMask({cpu}).bind_this_thread());
    region.emplace(RankRegion::create(rank, kSizes).value());
  }).join();
  return std::move(*region);
}

TEST(RankRegionTest, RanksThatAreBoundToTheirOwnCpusHaveThemTogether) {
  const CpuSet usable = usable_cpus();
  if (usable.size() < 2) GTEST_SKIP() << "needs two CPUs";
  const int first = *usable.begin(), last = *usable.rbegin();
  std::vector<RankRegion> regions;
  regions.push_back(region_on(first, 0));
  EXPECT_EQ(count_cpus(regions), 1);
  regions.push_back(region_on(first, 1));
  EXPECT_EQ(count_cpus(regions), 1) << "both ranks use the same CPU";
  regions.push_back(region_on(last, 2));
  EXPECT_EQ(count_cpus(regions), 2);
}

TEST(RankRegionTest, ARankThatIsNotBoundHasAllCpus) {
  std::vector<RankRegion> regions;
  regions.push_back(RankRegion::create(0, kSizes).value());
  EXPECT_EQ(count_cpus(regions), static_cast<int>(usable_cpus().size()));
}

}  // namespace
}  // namespace distrun::shm
