#include "sharing/shared_memory.h"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <string>

#include <ATen/MapAllocator.h>
#include <c10/util/Exception.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "common/result.h"
#include "common/units.h"

namespace distrun::internal {

namespace {

constexpr int kMapFlags = at::ALLOCATOR_MAPPED_SHAREDMEM | at::ALLOCATOR_MAPPED_NOCREATE |
                          at::ALLOCATOR_MAPPED_KEEPFD | at::ALLOCATOR_MAPPED_FROMFD;

[[noreturn]] void fail(std::size_t bytes, const char* what) {
  const int error_number = errno;
  const char* advice = "";
  if (error_number == EMFILE || error_number == ENFILE) {
    advice = ": each shared storage holds a descriptor: raise `ulimit -n`";
  } else if (error_number == ENOSPC || error_number == ENOMEM) {
    advice = ": there is not enough memory";
  }
  TORCH_CHECK(false, "share ", bytes, " bytes: ", Error::from_errno(what, error_number).message,
              advice);
}

// The kernel would end a process with SIGXFSZ that makes a longer file.
void check_file_size_limit(std::size_t bytes) {
  rlimit limit{};
  ::getrlimit(RLIMIT_FSIZE, &limit);
  TORCH_CHECK(limit.rlim_cur == RLIM_INFINITY || bytes <= limit.rlim_cur, "share ", bytes,
              " bytes: `ulimit -f` allows no more than ", limit.rlim_cur);
}

// Taking memory that is not there would end some process.  For what is small it is not asked.
void check_there_is_memory(std::size_t bytes) {
  constexpr std::size_t kSmall = 16 * kMiB;
  if (bytes < kSmall) return;
  std::ifstream facts("/proc/meminfo");
  std::size_t kibibytes = 0, available = 0, swap = 0;
  for (std::string name, line; facts >> name >> kibibytes && std::getline(facts, line);) {
    if (name == "MemAvailable:") available = kibibytes * kKiB;
    if (name == "SwapFree:") swap = kibibytes * kKiB;
  }
  TORCH_CHECK(available == 0 || bytes <= available + swap, "share ", bytes,
              " bytes: there is not enough memory, only ", available + swap, " bytes are left");
}

// A storage of no bytes has a byte, for nothing cannot be mapped.
std::size_t mapped_bytes(std::size_t bytes) { return std::max<std::size_t>(bytes, 1); }

at::DataPtr map(UniqueFd fd, std::size_t bytes) {
  at::DataPtr memory = at::MapAllocator::makeDataPtr(at::WITH_FD, "", fd.get(), kMapFlags,
                                                     mapped_bytes(bytes), nullptr);
  fd.release();
  return memory;
}

bool cannot_shrink(int fd) {
  const int seals = ::fcntl(fd, F_GET_SEALS);
  return seals >= 0 && (seals & F_SEAL_SHRINK) != 0;
}

}  // namespace

at::DataPtr make_shared_memory(std::size_t bytes) {
  check_file_size_limit(mapped_bytes(bytes));
  check_there_is_memory(bytes);
  UniqueFd fd(::memfd_create("distrun tensor", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) fail(bytes, "memfd_create");
  int done = -1;
  do {
    done = ::fallocate(fd.get(), 0, 0, static_cast<off_t>(mapped_bytes(bytes)));
  } while (done != 0 && errno == EINTR);
  if (done != 0) fail(bytes, "fallocate");
  if (::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    fail(bytes, "seal the memory");
  }
  return map(std::move(fd), bytes);
}

at::DataPtr map_shared_memory(UniqueFd fd, std::size_t bytes) {
  struct stat facts {};
  TORCH_CHECK_VALUE(::fstat(fd.get(), &facts) == 0 && cannot_shrink(fd.get()), "map ", bytes,
                    " bytes of a shared tensor: descriptor ", fd.get(),
                    " is not of memory that stays as it is");
  TORCH_CHECK_VALUE(static_cast<std::size_t>(facts.st_size) >= mapped_bytes(bytes), "map ", bytes,
                    " bytes of a shared tensor: its memory has only ", facts.st_size);
  return map(std::move(fd), bytes);
}

int shared_memory_of(const c10::StorageImpl& storage) {
  const auto* memory = at::MapAllocator::fromDataPtr(storage.data_ptr());
  if (memory == nullptr || memory->fd() < 0 || !cannot_shrink(memory->fd())) return -1;
  return memory->fd();
}

}  // namespace distrun::internal
