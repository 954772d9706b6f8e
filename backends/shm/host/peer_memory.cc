#include "backends/shm/host/peer_memory.h"

#include <cstdlib>
#include <string_view>
#include <utility>

#include <sys/uio.h>

#include "backends/shm/host/read_cost.h"

namespace distrun::shm {

namespace {

// The number of bytes; less than all if the kernel stops in the middle, and -1 for errors.
ssize_t read_some(pid_t process, std::uint64_t address, void* to, std::size_t bytes) {
  const iovec local{to, bytes};
  // NOLINTNEXTLINE(performance-no-int-to-ptr): an address of another process.
  const iovec remote{reinterpret_cast<void*>(address), bytes};
  return ::process_vm_readv(process, &local, 1, &remote, 1, 0);
}

}  // namespace

PeerMemory::PeerMemory(std::vector<pid_t> processes)
    : processes_(std::move(processes)), use_(use_of_setting()) {}

PeerMemory::Use PeerMemory::use_of_setting() {
  const char* const text = std::getenv("DISTRUN_SHM_READ_PEERS");
  const std::string_view setting = text == nullptr ? "" : text;
  if (setting == "0") return Use::kNever;
  return setting == "1" ? Use::kAlways : Use::kIfFaster;
}

bool PeerMemory::finds(int rank, std::uint64_t address, std::uint64_t expected) const {
  std::uint64_t found = 0;
  return use_ != Use::kNever && processes_[static_cast<std::size_t>(rank)] > 0 &&
         read(rank, address, reinterpret_cast<std::byte*>(&found), sizeof(found)) &&
         found == expected;
}

bool PeerMemory::are_faster(int reads, int copies) const {
  if (use_ == Use::kNever) return false;
  return use_ == Use::kAlways || reads * read_cost() < copies;
}

bool PeerMemory::read(int rank, std::uint64_t address, std::byte* to, std::size_t bytes) const {
  const pid_t process = processes_[static_cast<std::size_t>(rank)];
  for (std::size_t done = 0; done < bytes;) {
    const ssize_t some = read_some(process, address + done, to + done, bytes - done);
    if (some <= 0) return false;
    done += static_cast<std::size_t>(some);
  }
  return true;
}

}  // namespace distrun::shm
