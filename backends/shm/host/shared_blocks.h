// Memory for tensors that the other ranks of a group read and write in place.
//
//     auto block = blocks.allocate(bytes);           // In the file of this rank's RankRegion.
//     … a tensor in block->data() …
//     const BlockPlace place = blocks.place_of(data, bytes);
//     … every rank learns `place`, and calls …
//     std::byte* theirs = blocks.data_of(rank, place, bytes);
//
// Blocks are added to the end of the file, and their places are not used again, so a place says
// which memory is meant. Memory returns to the system when its block is freed, although peers may
// still map it.
//
// Thread safety: any thread, except that data_of() is for the thread that runs the collectives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "backends/shm/host/rank_memory.h"
#include "backends/shm/host/rank_region.h"
#include "distrun/result.h"

namespace distrun::shm {

// Where bytes are in the file of a rank. Without a block, `block_bytes` is zero.
struct BlockPlace {
  std::uint64_t block = 0;  // Where the block starts in the file.
  std::uint64_t block_bytes = 0;
  std::uint64_t begin = 0;  // Where the bytes start in the block.

  explicit operator bool() const { return block_bytes != 0; }
  friend auto operator<=>(const BlockPlace&, const BlockPlace&) = default;
};
static_assert(sizeof(BlockPlace) <= kInlineBytes);

// Owns the memory of a block.
class SharedBlock {
 public:
  virtual ~SharedBlock() = default;
  virtual std::byte* data() const = 0;
};

class SharedBlocks {
 public:
  // `regions` has the region of each rank, and outlives this object.
  SharedBlocks(const std::vector<RankRegion>& regions, int rank);
  ~SharedBlocks();
  SharedBlocks(const SharedBlocks&) = delete;
  SharedBlocks& operator=(const SharedBlocks&) = delete;

  // Zeros, with all memory allocated. A block may outlive this object.
  Result<std::unique_ptr<SharedBlock>> allocate(std::size_t bytes);

  // Without a block unless all the bytes are in one block of this rank.
  BlockPlace place_of(const std::byte* data, std::size_t bytes) const;

  // From now on, other ranks do not see what is written to the block, and what they write is not
  // seen here. They still see its contents. Does nothing if `data` are in no block, or if there is
  // no memory for a copy.
  void detach(const std::byte* data) noexcept;

  // The bytes of a rank, which it has told. Throws HostError if they cannot be there.
  std::byte* data_of(int rank, const BlockPlace& place, std::size_t bytes);

 private:
  struct Own;
  class Block;
  class Mapping;
  using Key = std::pair<std::uint64_t, std::uint64_t>;  // Place and size of a block.

  const std::vector<RankRegion>& regions_;
  const int rank_;
  const std::shared_ptr<Own> own_;
  std::vector<std::map<Key, Mapping>> mappings_;  // Of blocks, by rank.
};

}  // namespace distrun::shm
