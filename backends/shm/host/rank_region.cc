#include "backends/shm/host/rank_region.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <new>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/shm/host/text_of.h"
#include "common/os/cpu_set.h"

namespace distrun::shm {

namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_SEAL;

Error failed(const char* what, std::size_t bytes) {
  const int error_number = errno;
  Error error =
      Error::from_errno(text_of("share ", bytes, " bytes of memory: ", what), error_number);
  if (error_number == EMFILE || error_number == ENFILE) error.message += ": raise `ulimit -n`";
  if (error_number == EFBIG) error.message += ": raise `ulimit -f`";
  return error;
}

// Kernels before 6.3 do not know the flag, and later ones may require it (vm.memfd_noexec).
UniqueFd make_file() {
  constexpr unsigned kNoExecution = 8;  // MFD_NOEXEC_SEAL
  constexpr unsigned kFlags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  UniqueFd file(::memfd_create("distrun shm", kFlags | kNoExecution));
  if (file || errno != EINVAL) return file;
  return UniqueFd(::memfd_create("distrun shm", kFlags));
}

Result<RankMemory*> map_file(int file, std::size_t bytes) {
  void* address = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (address == MAP_FAILED) return failed("mmap", bytes);
  return static_cast<RankMemory*>(address);
}

using CpuWords = std::array<std::uint64_t, kCpuWords>;
constexpr std::size_t kWordBits = 64;

CpuWords words_of(const CpuSet& cpus) {
  CpuWords words{};
  for (const int cpu : cpus) {
    const auto at = static_cast<std::size_t>(cpu);
    if (at < kCpuWords * kWordBits) words[at / kWordBits] |= std::uint64_t{1} << (at % kWordBits);
  }
  return words;
}

Error strange(int rank, const std::string& what) {
  return {ErrorKind::kProtocol, text_of("rank ", rank, " of the group shares memory ", what)};
}

}  // namespace

Result<RankRegion> RankRegion::create(int rank, const MemorySizes& sizes) {
  const std::size_t bytes = sizes.all();
  UniqueFd file = make_file();
  if (!file) return failed("memfd_create", bytes);
  // Beyond the limit, ftruncate() would end the process with SIGXFSZ.
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < bytes) {
    errno = EFBIG;
    return failed("ftruncate", bytes);
  }
  // Rings take memory when they are used.
  if (::ftruncate(file.get(), static_cast<off_t>(bytes)) != 0) return failed("ftruncate", bytes);
  int done = -1;
  do {
    done = ::fallocate(file.get(), 0, 0, static_cast<off_t>(sizes.with_slots()));
  } while (done != 0 && errno == EINTR);
  if (done != 0) return failed("fallocate", bytes);
  if (::fcntl(file.get(), F_ADD_SEALS, kSeals) != 0) return failed("seal", bytes);
  auto memory = map_file(file.get(), bytes);
  if (!memory) return memory.error();
  auto* made = new (*memory) RankMemory();
  made->heading.version = kRankMemoryVersion;
  made->heading.rank = rank;
  made->heading.ranks = sizes.ranks;
  made->heading.cells = sizes.cells;
  made->heading.slot_bytes = sizes.slot_bytes;
  made->heading.ring_bytes = sizes.ring_bytes;
  made->heading.cpus = words_of(usable_cpus());
  made->heading.magic = kRankMemoryMagic;
  return RankRegion(std::move(file), made, bytes);
}

Result<RankRegion> RankRegion::map(UniqueFd file, int rank, const MemorySizes& sizes) {
  const std::size_t bytes = sizes.all();
  const int seals = ::fcntl(file.get(), F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals) return strange(rank, "that may become shorter");
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return failed("fstat", bytes);
  // The rank may have blocks by now.
  if (static_cast<std::size_t>(status.st_size) < bytes) {
    return strange(rank, text_of("of ", status.st_size, " bytes; expected at least ", bytes,
                                 ": do all ranks run the same version?"));
  }
  auto memory = map_file(file.get(), bytes);
  if (!memory) return memory.error();
  RankRegion region(std::move(file), *memory, bytes);
  const Heading& its = (*memory)->heading;
  if (its.magic != kRankMemoryMagic || its.version != kRankMemoryVersion) {
    return strange(rank, "in another format: do all ranks run the same version of distrun?");
  }
  if (its.cells != sizes.cells || its.slot_bytes != sizes.slot_bytes ||
      its.ring_bytes != sizes.ring_bytes) {
    return strange(rank, "of other sizes: do all ranks run the same version of distrun?");
  }
  if (its.rank != rank || its.ranks != sizes.ranks) {
    return strange(rank, text_of("of rank ", its.rank, " of ", its.ranks, "; expected rank ", rank,
                                 " of ", sizes.ranks));
  }
  return region;
}

RankRegion::~RankRegion() {
  if (memory_ != nullptr) ::munmap(memory_, bytes_);
}

int count_cpus(const std::vector<RankRegion>& regions) {
  int count = 0;
  for (std::size_t at = 0; at < kCpuWords; ++at) {
    std::uint64_t word = 0;
    for (const RankRegion& each : regions) word |= each.memory().heading.cpus[at];
    count += std::popcount(word);
  }
  return std::max(count, 1);
}

}  // namespace distrun::shm
