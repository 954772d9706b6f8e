#include "common/operations/digest.h"

#include <algorithm>
#include <cstring>

namespace distrun {

namespace {

constexpr std::size_t kWord = sizeof(std::uint64_t);
constexpr std::uint64_t kFactor = 0x9E3779B97F4A7C15;

// Half of the 16 sums.  GCC and Clang compile it to the vector instructions of the machine.
typedef std::uint64_t Lanes __attribute__((vector_size(8 * kWord)));  // NOLINT
constexpr std::size_t kLanes = sizeof(Lanes) / kWord;

std::uint32_t digest_of(const unsigned char* data, std::size_t bytes) {
  // Each half twice, so that an addition does not wait for the one before.
  constexpr std::size_t kAtOnce = 4;
  Lanes sums[kAtOnce] = {};
  Lanes words;
  for (; bytes >= kAtOnce * sizeof words; bytes -= kAtOnce * sizeof words) {
    for (auto& sum : sums) {
      std::memcpy(&words, data, sizeof words);
      sum += words;
      data += sizeof words;
    }
  }
  for (std::size_t next = 0; bytes > 0; ++next) {
    const std::size_t rest = std::min(bytes, sizeof words);
    words = Lanes{};
    std::memcpy(&words, data, rest);
    sums[next % kAtOnce] += words;
    data += rest;
    bytes -= rest;
  }
  std::uint64_t folded = 0;
  for (const Lanes& half : {sums[0] + sums[2], sums[1] + sums[3]}) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) folded = (folded ^ half[lane]) * kFactor;
  }
  return static_cast<std::uint32_t>(folded >> 32);
}

std::size_t bytes_of_block(std::size_t bytes) {
  const std::size_t words = (bytes + kWord - 1) / kWord;
  return (words + kDigestBlocks - 1) / kDigestBlocks * kWord;
}

}  // namespace

void Digest::add(const void* data, std::size_t bytes) {
  const auto* const begin = static_cast<const unsigned char*>(data);
  const std::size_t size = bytes_of_block(bytes);
  for (std::size_t block = 0; block < kDigestBlocks; ++block) {
    const std::size_t from = std::min(bytes, block * size);
    blocks_[block] =
        blocks_[block] * 31 + digest_of(begin + from, std::min(bytes, from + size) - from);
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
