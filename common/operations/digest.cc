#include "common/operations/digest.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace distrun {

namespace {

constexpr std::size_t kWord = sizeof(std::uint64_t);
constexpr std::uint64_t kFactor = 0x9E3779B97F4A7C15;

// Two of the 16 sums: the widest vector that every x86-64 and ARM processor has.  Wider ones are
// hardly faster, because memory limits the speed.
typedef std::uint64_t Pair __attribute__((vector_size(2 * kWord)));  // NOLINT
constexpr std::size_t kPairs = 8, kRow = kPairs * sizeof(Pair);

class Sums {
 public:
  void add_row(const unsigned char* data) {
    for (Pair& sum : sums_) {
      Pair words;
      std::memcpy(&words, data, sizeof words);
      sum += words;
      data += sizeof words;
    }
  }

  void add_rest(const unsigned char* data, std::size_t bytes) {
    for (; bytes >= kRow; bytes -= kRow, data += kRow) add_row(data);
    if (bytes == 0) return;
    std::array<unsigned char, kRow> row{};
    std::memcpy(row.data(), data, bytes);
    add_row(row.data());
  }

  std::uint32_t folded() const {
    std::uint64_t folded = 0;
    for (const Pair& sum : sums_) {
      for (const std::uint64_t word : {sum[0], sum[1]}) folded = (folded ^ word) * kFactor;
    }
    return static_cast<std::uint32_t>(folded >> 32);
  }

 private:
  std::array<Pair, kPairs> sums_{};
};

std::size_t bytes_of_block(std::size_t bytes) {
  const std::size_t words = (bytes + kWord - 1) / kWord;
  return (words + kDigestBlocks - 1) / kDigestBlocks * kWord;
}

}  // namespace

// Reads several blocks at once, because a processor reads several streams of memory faster than
// one.
void Digest::add(const void* data, std::size_t bytes) {
  constexpr std::size_t kStreams = 4;
  static_assert(kDigestBlocks % kStreams == 0);
  const auto* const begin = static_cast<const unsigned char*>(data);
  const std::size_t size = bytes_of_block(bytes);
  for (std::size_t first = 0; first < kDigestBlocks; first += kStreams) {
    std::array<Sums, kStreams> sums;
    // The last of the blocks is the shortest.
    const std::size_t full = std::min(bytes, (first + kStreams - 1) * size);
    const std::size_t shortest = std::min(bytes - full, size) / kRow * kRow;
    for (std::size_t row = 0; row < shortest; row += kRow) {
      for (std::size_t stream = 0; stream < kStreams; ++stream) {
        sums[stream].add_row(begin + (first + stream) * size + row);
      }
    }
    for (std::size_t stream = 0; stream < kStreams; ++stream) {
      const std::size_t from = std::min(bytes, (first + stream) * size + shortest);
      const std::size_t to = std::min(bytes, (first + stream + 1) * size);
      sums[stream].add_rest(begin + from, to - from);
      std::uint32_t& block = blocks_[first + stream];
      block = block * 31 + sums[stream].folded();
    }
  }
}

std::uint64_t Digest::value() const {
  std::uint64_t folded = 0;
  for (const std::uint32_t block : blocks_) folded = (folded ^ block) * kFactor;
  return folded;
}

ElementRange elements_of_block(std::size_t block, std::uint64_t elements,
                               std::size_t element_bytes) {
  if (element_bytes == 0) return {0, elements};
  const std::uint64_t size = bytes_of_block(elements * element_bytes);
  return {std::min(elements, block * size / element_bytes),
          std::min(elements, ((block + 1) * size + element_bytes - 1) / element_bytes)};
}

}  // namespace distrun
