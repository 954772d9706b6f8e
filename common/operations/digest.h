// Digest is a checksum of tensors, to see whether ranks have the same values.
//
//     Digest digest;
//     digest.add(tensor.data_ptr(), tensor.nbytes());
//     slot.output_digests = digest.blocks();
//
// It reads memory once, at the memory's speed.  Every change of one word is seen, and words that
// change places are, unless they are a multiple of 16 words apart within a block.  It is not safe
// against an adversary.
//
// A tensor's bytes are little-endian words of 64 bits, the last one padded with zeros.  They form
// 16 blocks of ceil(words / 16) words; the last ones may be shorter.  Word w of a block is added to
// sum w % 16, modulo 2^64.  With h = 0, then h = (h ^ sum) * 0x9E3779B97F4A7C15 for each of the 16
// sums, the block's digest is h >> 32.  If there are several tensors, a block's digest is
// digest_before * 31 + digest, modulo 2^32.
//
// Pure.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/operations/operation.h"

namespace distrun {

class Digest {
 public:
  void add(const void* data, std::size_t bytes);

  const BlockDigests& blocks() const { return blocks_; }

  // All blocks in one number.
  std::uint64_t value() const;

 private:
  BlockDigests blocks_{};
};

// The elements, of `elements`, that block `block` covers: [first, last).
struct ElementRange {
  std::uint64_t first = 0, last = 0;
};
ElementRange elements_of_block(std::size_t block, std::uint64_t elements,
                               std::size_t element_bytes);

}  // namespace distrun
