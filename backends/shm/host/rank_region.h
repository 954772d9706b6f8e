// A rank's memory as a file that other processes map.
//
//     auto mine = RankRegion::create(rank, sizes);
//     … send mine->descriptor() to a peer, which calls …
//     auto theirs = RankRegion::map(std::move(descriptor), peer, sizes);
//
// The file has no name, and cannot become shorter, which would end this process with SIGBUS. It may
// become longer (shared_blocks.h). map() believes nothing: it checks the seals, the size and the
// heading.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "backends/shm/host/rank_memory.h"
#include "common/os/unique_fd.h"
#include "distrun/result.h"

namespace distrun::shm {

// Thread safety: one thread at a time; the memory is for all.
class RankRegion {
 public:
  // With all memory of the cells and slots allocated, and with the CPUs of this thread.
  static Result<RankRegion> create(int rank, const MemorySizes& sizes);
  static Result<RankRegion> map(UniqueFd file, int rank, const MemorySizes& sizes);

  RankRegion(RankRegion&& other) noexcept
      : file_(std::move(other.file_)),
        memory_(std::exchange(other.memory_, nullptr)),
        bytes_(other.bytes_) {}
  RankRegion& operator=(RankRegion&&) = delete;
  ~RankRegion();

  RankMemory& memory() const { return *memory_; }
  int descriptor() const { return file_.get(); }
  // Of the memory; blocks come after them.
  std::size_t bytes() const { return bytes_; }

 private:
  RankRegion(UniqueFd file, RankMemory* memory, std::size_t bytes)
      : file_(std::move(file)), memory_(memory), bytes_(bytes) {}

  UniqueFd file_;
  RankMemory* memory_;
  std::size_t bytes_;
};

// How many CPUs the ranks may use together: each may be bound to its own. The same on all ranks,
// and at least 1.
int count_cpus(const std::vector<RankRegion>& regions);

}  // namespace distrun::shm
