#include "backends/shm/host/shared_blocks.h"

#include <cerrno>
#include <limits>
#include <mutex>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/shm/host/host_error.h"
#include "backends/shm/host/text_of.h"
#include "common/os/unique_fd.h"

namespace distrun::shm {

namespace {

// Of freed blocks, a rank may keep so many mappings.
constexpr std::size_t kMappingsMax = 256;

Error block_error(const char* what, std::size_t bytes) {
  const int error_number = errno;
  Error error =
      Error::from_errno(text_of("share ", bytes, " bytes of tensors: ", what), error_number);
  if (error_number == EMFILE) error.message += ": raise `ulimit -n`";
  if (error_number == EFBIG) error.message += ": raise `ulimit -f`";
  return error;
}

bool fits_file_limit(std::uint64_t bytes) {
  rlimit limit{};
  return ::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur >= bytes;
}

// Makes the file longer, with memory for all of it.
bool extend_file(int file, std::uint64_t begin, std::size_t bytes) {
  int done = -1;
  do {
    done = ::fallocate(file, 0, static_cast<off_t>(begin), static_cast<off_t>(bytes));
  } while (done != 0 && errno == EINTR);
  return done == 0;
}

}  // namespace

class SharedBlocks::Mapping {
 public:
  Mapping(int file, std::uint64_t begin, std::size_t bytes) : bytes_(bytes) {
    void* address =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, static_cast<off_t>(begin));
    if (address != MAP_FAILED) data_ = static_cast<std::byte*>(address);
  }
  Mapping(Mapping&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}
  Mapping& operator=(Mapping&&) = delete;
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
  std::uint64_t end = 0;  // Of the file.
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
    const std::lock_guard lock(own_->mutex);
    own_->blocks.erase(data());
    // Returns the memory. If that fails, it returns with the file.
    ::fallocate(own_->file.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                static_cast<off_t>(begin_), static_cast<off_t>(mapping_.bytes()));
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
  const std::size_t whole = (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  const std::lock_guard lock(own_->mutex);
  if (!own_->file) {
    own_->file.reset(
        ::fcntl(regions_[static_cast<std::size_t>(rank_)].descriptor(), F_DUPFD_CLOEXEC, 0));
    if (!own_->file) return block_error("fcntl", bytes);
  }
  const std::uint64_t begin = own_->end;
  if (!fits_file_limit(begin + whole)) {
    errno = EFBIG;
    return block_error("fallocate", bytes);
  }
  if (!extend_file(own_->file.get(), begin, whole)) return block_error("fallocate", bytes);
  own_->end += whole;
  Mapping mapping(own_->file.get(), begin, whole);
  if (mapping.data() == nullptr) return block_error("mmap", bytes);
  own_->blocks[mapping.data()] = {begin, whole};
  return std::unique_ptr<SharedBlock>(std::make_unique<Block>(own_, std::move(mapping), begin));
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

std::byte* SharedBlocks::data_of(int rank, const BlockPlace& place, std::size_t bytes) {
  const auto index = static_cast<std::size_t>(rank);
  const auto failed = [&](const char* what) {
    return HostError(HostError::Kind::kFailed, rank,
                     text_of("the memory of a tensor of ", bytes, " bytes: ", what));
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
    if (mapping.data() == nullptr) throw failed("mmap failed");
    found = known.emplace(key, std::move(mapping)).first;
  }
  return found->second.data() + place.begin;
}

}  // namespace distrun::shm
