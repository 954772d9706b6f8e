#include "parallel/checkpoint/checkpoint_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <string_view>
#include <system_error>
#include <utility>

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/util/Exception.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/os/unique_fd.h"
#include "common/os/write_all.h"

namespace distrun::internal {

namespace {

std::string problem() { return std::generic_category().message(errno); }

// Writes to a file, and takes the checksums of its blocks.
class ChecksumWriter {
 public:
  ChecksumWriter(std::string path, FileRecord& record)
      : path_(std::move(path)),
        record_(record),
        file_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666)) {
    check(file_.get() >= 0);
    XXH3_64bits_reset(&state_);
  }

  void write(std::string_view data) {
    while (!data.empty()) {
      const std::string_view now = data.substr(0, kChecksumBlock - in_block_);
      check(write_all(file_.get(), now));
      XXH3_64bits_update(&state_, now.data(), now.size());
      in_block_ += now.size();
      record_.bytes += now.size();
      data.remove_prefix(now.size());
      if (in_block_ == kChecksumBlock) end_block();
    }
  }

  void finish() {
    if (in_block_ > 0) end_block();
    check(::fsync(file_.get()) == 0);
  }

 private:
  void end_block() {
    record_.checksums.push_back(XXH3_64bits_digest(&state_));
    XXH3_64bits_reset(&state_);
    in_block_ = 0;
  }
  void check(bool ok) const { TORCH_CHECK(ok, "cannot write ", path_, ": ", problem()); }

  const std::string path_;
  FileRecord& record_;
  const UniqueFd file_;
  XXH3_state_t state_{};
  std::uint64_t in_block_ = 0;
};

// Within the part that an entry has.
at::Tensor narrowed(at::Tensor tensor, const Box& whole, const Box& part) {
  for (std::size_t d = 0; d < part.sizes.size(); ++d) {
    tensor = tensor.narrow(static_cast<std::int64_t>(d), part.offsets[d] - whole.offsets[d],
                           part.sizes[d]);
  }
  return tensor;
}

}  // namespace

std::uint64_t checksum(const void* data, std::size_t bytes) { return XXH3_64bits(data, bytes); }

FileRecord write_checkpoint_file(const std::string& folder, const std::string& name,
                                 const std::vector<FilePart>& parts) {
  std::vector<SafetensorsEntry> entries;
  entries.reserve(parts.size());
  std::map<std::string_view, at::Tensor> values_of;
  for (const FilePart& part : parts) {
    values_of[part.name] = part.values;
    entries.push_back({.name = part.name, .dtype = part.values.scalar_type(), .box = part.box});
  }
  place_entries(entries);
  FileRecord record{.name = name};
  ChecksumWriter writer(folder + "/" + name, record);
  writer.write(safetensors_header(entries));
  for (const SafetensorsEntry& entry : entries) {
    const at::Tensor values =
        values_of.at(entry.name).detach().resolve_conj().resolve_neg().cpu().contiguous();
    if (entry.bytes == 0) continue;
    writer.write({static_cast<const char*>(values.const_data_ptr()), entry.bytes});
  }
  writer.finish();
  return record;
}

CheckpointFile::CheckpointFile(std::string path, std::optional<FileRecord> record)
    : path_(std::move(path)), record_(std::move(record)) {
  map();
  try {
    read_header();
  } catch (...) {
    ::munmap(const_cast<char*>(data_), bytes_);
    throw;
  }
}

CheckpointFile::~CheckpointFile() { ::munmap(const_cast<char*>(data_), bytes_); }

void CheckpointFile::map() {
  const UniqueFd file(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  TORCH_CHECK(file.get() >= 0, "cannot read ", path_, ": ", problem());
  struct stat status {};
  TORCH_CHECK(::fstat(file.get(), &status) == 0, "cannot read ", path_, ": ", problem());
  bytes_ = static_cast<std::uint64_t>(status.st_size);
  TORCH_CHECK(!record_ || record_->bytes == bytes_, path_, " is damaged: it has ", bytes_,
              " bytes; expected ", record_ ? record_->bytes : 0);
  TORCH_CHECK(bytes_ >= 8, path_, " is damaged: it is too short for a safetensors file");
  void* const mapped = ::mmap(nullptr, bytes_, PROT_READ, MAP_PRIVATE, file.get(), 0);
  TORCH_CHECK(mapped != MAP_FAILED, "cannot read ", path_, ": ", problem());
  data_ = static_cast<const char*>(mapped);
  verified_.resize((bytes_ + kChecksumBlock - 1) / kChecksumBlock);
}

void CheckpointFile::read_header() {
  verify(0, 8);
  const auto size = safetensors_header_size({data_, 8}, bytes_);
  TORCH_CHECK(size.has_value(), path_, " is damaged: ", size.error().message);
  verify(0, *size);
  auto parsed = parse_safetensors_header({data_, *size}, bytes_);
  TORCH_CHECK(parsed.has_value(), path_, " is damaged: ", parsed.error().message);
  file_ = std::move(*parsed);
}

void CheckpointFile::verify(std::uint64_t begin, std::uint64_t bytes) {
  if (!record_ || bytes == 0) return;
  const std::uint64_t last = (begin + bytes - 1) / kChecksumBlock;
  for (std::uint64_t block = begin / kChecksumBlock; block <= last; ++block) {
    if (verified_[block]) continue;
    const std::uint64_t from = block * kChecksumBlock;
    const std::uint64_t size = std::min(kChecksumBlock, bytes_ - from);
    TORCH_CHECK(block < record_->checksums.size() &&
                    checksum(data_ + from, size) == record_->checksums[block],
                path_, " is damaged: the checksum of bytes ", from, " to ", from + size - 1,
                " is wrong; load another checkpoint");
    verified_[block] = true;
  }
}

void CheckpointFile::read(const SafetensorsEntry& entry, const Box& part,
                          const at::Tensor& target) {
  if (part.numel() == 0) return;
  const char* const begin = data_ + file_.data_begin + entry.begin;
  const auto item = static_cast<std::int64_t>(c10::elementSize(entry.dtype));
  // Rows of the entry are contiguous, so only these bytes are needed.
  std::int64_t row = item;
  for (std::size_t d = 1; d < entry.box.sizes.size(); ++d) row *= entry.box.sizes[d];
  const bool is_scalar = part.sizes.empty();
  const std::int64_t first = is_scalar ? 0 : (part.offsets[0] - entry.box.offsets[0]) * row;
  const std::int64_t size = is_scalar ? item : part.sizes[0] * row;
  verify(file_.data_begin + entry.begin + static_cast<std::uint64_t>(first),
         static_cast<std::uint64_t>(size));

  const auto options = at::TensorOptions().dtype(entry.dtype);
  at::Tensor values;
  if (reinterpret_cast<std::uintptr_t>(begin) % static_cast<std::uintptr_t>(item) == 0) {
    values = at::from_blob(const_cast<char*>(begin), entry.box.sizes, options);
  } else {  // In a file of another program.
    values = at::empty(entry.box.sizes, options);
    std::memcpy(values.mutable_data_ptr(), begin, entry.bytes);
  }
  target.copy_(narrowed(values, entry.box, part));
}

}  // namespace distrun::internal
