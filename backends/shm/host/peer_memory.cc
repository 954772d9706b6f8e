#include "backends/shm/host/peer_memory.h"

#include <cerrno>
#include <cstdlib>
#include <string_view>
#include <system_error>
#include <utility>

#include <sys/uio.h>

#include "backends/shm/host/host_error.h"
#include "backends/shm/host/text_of.h"

namespace distrun::shm {

namespace {

constexpr const char* kVariable = "DISTRUN_SHM_READ_PEERS";

bool is_allowed_by_user() {
  const char* const text = std::getenv(kVariable);
  return text == nullptr || std::string_view(text) != "0";
}

// The number of bytes; less than all if the kernel stops in the middle. -1 and errno for errors.
ssize_t read_some(pid_t process, std::uint64_t address, void* to, std::size_t bytes) {
  const iovec local{to, bytes};
  // NOLINTNEXTLINE(performance-no-int-to-ptr): an address of another process.
  const iovec remote{reinterpret_cast<void*>(address), bytes};
  return ::process_vm_readv(process, &local, 1, &remote, 1, 0);
}

}  // namespace

PeerMemory::PeerMemory(std::vector<pid_t> processes, std::vector<int> names)
    : processes_(std::move(processes)),
      names_(std::move(names)),
      is_allowed_(is_allowed_by_user()) {}

bool PeerMemory::finds(int rank, std::uint64_t address, std::uint64_t expected) const {
  const pid_t process = processes_[static_cast<std::size_t>(rank)];
  std::uint64_t found = 0;
  return is_allowed_ && process > 0 &&
         read_some(process, address, &found, sizeof(found)) == ssize_t{sizeof(found)} &&
         found == expected;
}

void PeerMemory::read(int rank, std::uint64_t address, std::byte* to, std::size_t bytes) const {
  const auto at = static_cast<std::size_t>(rank);
  std::size_t done = 0;
  while (done < bytes) {
    const ssize_t some = read_some(processes_[at], address + done, to + done, bytes - done);
    if (some > 0) {
      done += static_cast<std::size_t>(some);
      continue;
    }
    const int error = some == 0 ? EFAULT : errno;
    if (error == ESRCH) {
      throw HostError(HostError::Kind::kEnded, rank, text_of("rank ", names_[at], " has ended"));
    }
    throw HostError(HostError::Kind::kFailed, rank,
                    text_of("cannot read the memory of rank ", names_[at], ": ",
                            std::generic_category().message(error), "; set ", kVariable,
                            "=0 to pass all data through shared memory"));
  }
}

}  // namespace distrun::shm
