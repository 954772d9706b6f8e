#include "common/operations/digest.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

namespace distrun {
namespace {

std::vector<unsigned char> bytes(std::size_t count) {
  std::vector<unsigned char> all(count);
  for (std::size_t i = 0; i < count; ++i) all[i] = static_cast<unsigned char>(i * 37 + i / 251);
  return all;
}

BlockDigests digests_of(const std::vector<unsigned char>& data) {
  Digest digest;
  digest.add(data.data(), data.size());
  return digest.blocks();
}

// The definition in digest.h, word by word.
BlockDigests by_definition(std::vector<unsigned char> data) {
  data.resize((data.size() + 7) / 8 * 8);
  const std::size_t words = data.size() / 8;
  const std::size_t size = (words + 15) / 16;
  BlockDigests blocks{};
  for (std::size_t block = 0; block < 16; ++block) {
    std::uint64_t sums[16] = {};
    for (std::size_t w = 0; w < size && block * size + w < words; ++w) {
      std::uint64_t word = 0;
      for (std::size_t i = 8; i-- > 0;) word = word << 8 | data[(block * size + w) * 8 + i];
      sums[w % 16] += word;
    }
    std::uint64_t folded = 0;
    for (const std::uint64_t sum : sums) folded = (folded ^ sum) * 0x9E3779B97F4A7C15;
    blocks[block] = static_cast<std::uint32_t>(folded >> 32);
  }
  return blocks;
}

TEST(DigestTest, IsThatOfItsDefinition) {
  for (const std::size_t count : {0, 1, 7, 8, 9, 127, 128, 129, 1000, 4096, 10'001, 65'537}) {
    EXPECT_EQ(digests_of(bytes(count)), by_definition(bytes(count))) << count;
  }
}

TEST(DigestTest, EveryFlippedBitChangesTheBlockOfItsElementOnly) {
  constexpr std::size_t kElements = 1000;
  auto data = bytes(kElements * 4);
  const BlockDigests before = digests_of(data);
  for (std::size_t bit = 0; bit < data.size() * 8; ++bit) {
    data[bit / 8] ^= static_cast<unsigned char>(1U << bit % 8);
    const BlockDigests after = digests_of(data);
    data[bit / 8] ^= static_cast<unsigned char>(1U << bit % 8);
    int changed = 0;
    for (std::size_t block = 0; block < kDigestBlocks; ++block) {
      if (after[block] == before[block]) continue;
      ++changed;
      const auto [first, last] = elements_of_block(block, kElements, 4);
      EXPECT_LE(first, bit / 32);
      EXPECT_GT(last, bit / 32);
    }
    ASSERT_EQ(changed, 1) << "bit " << bit;
  }
}

TEST(DigestTest, NeighboursThatChangePlacesAreSeen) {
  auto data = bytes(4096);
  const BlockDigests before = digests_of(data);
  std::swap_ranges(data.begin(), data.begin() + 8, data.begin() + 8);
  EXPECT_NE(digests_of(data), before);
}

TEST(DigestTest, TheOrderOfTensorsCounts) {
  const auto one = bytes(100), two = bytes(200);
  Digest forward, backward;
  forward.add(one.data(), one.size());
  forward.add(two.data(), two.size());
  backward.add(two.data(), two.size());
  backward.add(one.data(), one.size());
  EXPECT_NE(forward.blocks(), backward.blocks());
  EXPECT_NE(forward.value(), backward.value());
}

TEST(DigestTest, BlocksCoverAllElements) {
  for (const std::uint64_t elements : {1, 2, 15, 16, 17, 31, 1000, 4099}) {
    for (const std::size_t size : {1, 2, 4, 8, 16}) {
      std::uint64_t covered = 0;
      for (std::size_t block = 0; block < kDigestBlocks; ++block) {
        const auto [first, last] = elements_of_block(block, elements, size);
        EXPECT_LE(first, covered) << elements << " of " << size;
        covered = std::max(covered, last);
      }
      EXPECT_EQ(covered, elements) << elements << " of " << size;
    }
  }
}

}  // namespace
}  // namespace distrun
