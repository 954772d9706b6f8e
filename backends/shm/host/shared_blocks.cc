#include "backends/shm/host/shared_blocks.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <mutex>
#include <system_error>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/shm/host/host_error.h"
#include "backends/shm/host/huge_pages.h"
#include "backends/shm/host/text_of.h"
#include "common/os/unique_fd.h"

namespace distrun::shm {

namespace {

// Of each peer's blocks. Nobody says which of them are freed, so all are unmapped then.
constexpr std::size_t kMappingsMax = 1024;
// Kernels before 6.14 begin again if a signal comes, so that a large step might never end.
constexpr std::size_t kExtendBytes = std::size_t{4} << 20;

Error block_error(const char* what, std::size_t bytes) {
  const int error_number = errno;
  Error error =
      Error::from_errno(text_of("share ", bytes, " bytes of tensors: ", what), error_number);
  if (error_number == EMFILE) error.message += ": raise `ulimit -n`";
  if (error_number == EFBIG) error.message += ": raise `ulimit -f`";
  if (error_number == ENOMEM) error.message += ": raise `ulimit -v`";
  return error;
}

std::uint64_t rounded_up(std::uint64_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

bool fits_file_limit(std::uint64_t bytes) {
  rlimit limit{};
  return ::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur >= bytes;
}

// If that fails, the memory returns with the file.
void free_range(int file, std::uint64_t begin, std::size_t bytes) {
  ::fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(begin),
              static_cast<off_t>(bytes));
}

// Makes the file longer, with memory for all of it.
bool extend_file(int file, std::uint64_t begin, std::size_t bytes) {
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t some = std::min(kExtendBytes, bytes - done);
    const auto from = static_cast<off_t>(begin + done);
    if (::fallocate(file, 0, from, static_cast<off_t>(some)) == 0) {
      done += some;
    } else if (errno != EINTR) {
      const int error_number = errno;
      free_range(file, begin, bytes);
      errno = error_number;
      return false;
    }
  }
  return true;
}

}  // namespace

class SharedBlocks::Mapping {
 public:
  Mapping(int file, std::uint64_t begin, std::size_t bytes) : bytes_(bytes) {
    void* address = map_for_huge_pages(file, begin, bytes);
    if (address != MAP_FAILED) data_ = static_cast<std::byte*>(address);
  }
  Mapping(Mapping&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Mapping() {
    if (data_ != nullptr) ::munmap(data_, bytes_);
  }

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_;
};

// What blocks need after their group has gone.
struct SharedBlocks::Own {
  const pid_t process = ::getpid();
  UniqueFd file;
  std::mutex mutex;
  std::uint64_t end = 0;  // Of the places in the file that blocks have had.
  struct Span {
    std::uint64_t block;
    std::size_t bytes;
  };
  std::map<const std::byte*, Span> blocks;  // By address.
};

class SharedBlocks::Block : public SharedBlock {
 public:
  Block(std::shared_ptr<Own> own, Mapping mapping, std::uint64_t begin)
      : own_(std::move(own)), mapping_(std::move(mapping)), begin_(begin) {}
  ~Block() override {
    if (::getpid() != own_->process) return;  // A child of fork() frees its mapping alone.
    {
      const std::lock_guard lock(own_->mutex);
      own_->blocks.erase(mapping_.data());
    }
    free_range(own_->file.get(), begin_, mapping_.bytes());
  }
  std::byte* data() const override { return mapping_.data(); }

 private:
  const std::shared_ptr<Own> own_;
  const Mapping mapping_;
  const std::uint64_t begin_;
};

SharedBlocks::SharedBlocks(const std::vector<RankRegion>& regions, int rank)
    : regions_(regions), rank_(rank), own_(std::make_shared<Own>()), mappings_(regions.size()) {
  own_->end = regions[static_cast<std::size_t>(rank)].bytes();
}

SharedBlocks::~SharedBlocks() = default;

Result<std::unique_ptr<SharedBlock>> SharedBlocks::allocate(std::size_t bytes) {
  const std::size_t whole = rounded_up(bytes, kPageBytes);
  std::uint64_t before = 0, begin = 0;
  {
    const std::lock_guard lock(own_->mutex);
    if (!own_->file) {
      own_->file.reset(
          ::fcntl(regions_[static_cast<std::size_t>(rank_)].descriptor(), F_DUPFD_CLOEXEC, 0));
      if (!own_->file) return block_error("fcntl", bytes);
    }
    before = own_->end;
    begin = whole < kHugeBytes ? before : rounded_up(before, kHugeBytes);
    if (!fits_file_limit(begin + whole)) {
      errno = EFBIG;
      return block_error("fallocate", bytes);
    }
    own_->end = begin + whole;
  }
  // No rank has learnt of the place, so it can be used again.
  const auto give_back = [&] {
    const std::lock_guard lock(own_->mutex);
    if (own_->end == begin + whole) own_->end = before;
  };
  // Without the lock: this may take a second, and collectives go on.
  const int file = own_->file.get();
  Mapping mapping(file, begin, whole);
  if (mapping.data() == nullptr) {
    Error error = block_error("mmap", bytes);
    give_back();
    return error;
  }
  auto block = std::make_unique<Block>(own_, std::move(mapping), begin);
  if (!extend_file(file, begin, whole)) {
    Error error = block_error("fallocate", bytes);
    block.reset();
    give_back();
    return error;
  }
  use_huge_pages(block->data(), whole);
  const std::lock_guard lock(own_->mutex);
  own_->blocks[block->data()] = {begin, whole};
  return std::unique_ptr<SharedBlock>(std::move(block));
}

BlockPlace SharedBlocks::place_of(const std::byte* data, std::size_t bytes) const {
  const std::lock_guard lock(own_->mutex);
  auto after = own_->blocks.upper_bound(data);
  if (after == own_->blocks.begin()) return {};
  const auto& [address, span] = *--after;
  const auto begin = static_cast<std::size_t>(data - address);
  if (begin > span.bytes || bytes > span.bytes - begin) return {};
  return {.block = span.block, .block_bytes = span.bytes, .begin = begin};
}

void SharedBlocks::detach(const std::byte* data) noexcept {
  const std::lock_guard lock(own_->mutex);
  auto after = own_->blocks.upper_bound(data);
  if (after == own_->blocks.begin()) return;
  const auto found = std::prev(after);
  const auto& [address, span] = *found;
  if (data >= address + span.bytes) return;
  void* const copy =
      ::mmap(nullptr, span.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (copy == MAP_FAILED) return;
  std::memcpy(copy, address, span.bytes);
  void* const place = const_cast<std::byte*>(address);
  if (::mremap(copy, span.bytes, span.bytes, MREMAP_MAYMOVE | MREMAP_FIXED, place) == MAP_FAILED) {
    ::munmap(copy, span.bytes);
    return;
  }
  own_->blocks.erase(found);
}

std::byte* SharedBlocks::data_of(int rank, const BlockPlace& place, std::size_t bytes) {
  const auto index = static_cast<std::size_t>(rank);
  const auto failed = [&](const char* what) {
    return HostError(HostError::Kind::kFailed, rank,
                     text_of("a peer's tensor of ", bytes, " bytes: ", what));
  };
  if (place.begin > place.block_bytes || bytes > place.block_bytes - place.begin) {
    throw failed("the tensor does not fit into its block");
  }
  auto& known = mappings_[index];
  const Key key(place.block, place.block_bytes);
  auto found = known.find(key);
  if (found == known.end()) {
    const RankRegion& region = regions_[index];
    struct stat status {};
    if (::fstat(region.descriptor(), &status) != 0) throw failed("fstat failed");
    const auto file_bytes = static_cast<std::uint64_t>(status.st_size);
    const bool is_in_file = place.block >= region.bytes() && place.block <= file_bytes &&
                            place.block_bytes <= file_bytes - place.block;
    if (!is_in_file || place.block % kPageBytes != 0) throw failed("the block is not in the file");
    if (known.size() >= kMappingsMax) known.clear();
    Mapping mapping(region.descriptor(), place.block, place.block_bytes);
    if (mapping.data() == nullptr) {  // Those of freed blocks may take the room.
      known.clear();
      mapping = Mapping(region.descriptor(), place.block, place.block_bytes);
    }
    if (mapping.data() == nullptr) {
      throw failed(
          text_of("mmap: ", std::generic_category().message(errno), ": raise `ulimit -v`").c_str());
    }
    found = known.emplace(key, std::move(mapping)).first;
  }
  return found->second.data() + place.begin;
}

}  // namespace distrun::shm
