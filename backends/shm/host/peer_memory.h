// Reads the memory of other ranks' processes (process_vm_readv): that copies large data once, not
// into shared memory and out of it.
//
//     const PeerMemory peers(processes, names);
//     if (peers.finds(rank, address, expected)) …        // Allowed, and the right process.
//     if (!peers.read(rank, address, to, bytes)) …       // It ended, or the kernel refuses.
//
// The kernel may not allow it, for example with kernel.yama.ptrace_scope = 1, and the setting
// DISTRUN_SHM_READ_PEERS=0 forbids it. With DISTRUN_SHM_READ_PEERS=1, it need not be faster.
//
// Thread safety: any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <sys/types.h>

namespace distrun::shm {

class PeerMemory {
 public:
  // By rank: the processes as this one numbers them; 0 if unknown.
  explicit PeerMemory(std::vector<pid_t> processes);

  // Whether the rank's process has this value at the address.
  bool finds(int rank, std::uint64_t address, std::uint64_t expected) const;

  // False if it cannot read all of it. If the process ends meanwhile and another one gets its
  // number, this reads the other one's: look afterwards whether the rank is still there.
  bool read(int rank, std::uint64_t address, std::byte* to, std::size_t bytes) const;

  // Whether `reads` reads are faster than `copies` copies of as many bytes.
  bool are_faster(int reads, int copies) const;

 private:
  enum class Use { kNever, kIfFaster, kAlways };
  static Use use_of_setting();

  const std::vector<pid_t> processes_;
  const Use use_;
};

}  // namespace distrun::shm
