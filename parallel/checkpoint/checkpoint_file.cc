#include "parallel/checkpoint/checkpoint_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <string_view>
#include <system_error>
#include <utility>

#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/os/unique_fd.h"
#include "common/os/write_all.h"

namespace distrun::internal {

namespace {

// Bounds the memory that a read needs, unless one row is larger.
constexpr std::int64_t kReadBytesMax = std::int64_t{64} << 20;

// A checkpoint can have more files than a process may have descriptors, often 1024. Files with
// lower descriptors stay open, and can be read also if the checkpoint is replaced meanwhile.
constexpr int kKeptDescriptorMax = 256;

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
  open();
  read_header();
  rest();
}

void CheckpointFile::open() {
  const bool is_first = verified_.empty();
  fd_.reset(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status {};
  TORCH_CHECK(fd_ && ::fstat(fd_.get(), &status) == 0, "cannot read ", path_, ": ", problem());
  const std::pair identity(status.st_dev, status.st_ino);
  TORCH_CHECK(is_first || identity == identity_, "cannot read ", path_,
              ": another file has taken its place");
  if (!is_first) return;
  identity_ = identity;
  bytes_ = static_cast<std::uint64_t>(status.st_size);
  TORCH_CHECK(!record_ || record_->bytes == bytes_, path_, " is damaged: it has ", bytes_,
              " bytes; expected ", record_ ? record_->bytes : 0);
  TORCH_CHECK(bytes_ >= 8, path_, " is damaged: it is too short for a safetensors file");
  verified_.resize((bytes_ + kChecksumBlock - 1) / kChecksumBlock);
}

void CheckpointFile::rest() {
  if (fd_.get() > kKeptDescriptorMax) fd_.reset();
}

void CheckpointFile::read_header() {
  std::string header(8, '\0');
  read_bytes(0, header.size(), header.data());
  const auto size = safetensors_header_size(header, bytes_);
  TORCH_CHECK(size.has_value(), path_, " is damaged: ", size.error().message);
  header.resize(*size);
  read_bytes(0, header.size(), header.data());
  auto parsed = parse_safetensors_header(header, bytes_);
  TORCH_CHECK(parsed.has_value(), path_, " is damaged: ", parsed.error().message);
  file_ = std::move(*parsed);
}

void CheckpointFile::read_unchecked(std::uint64_t begin, std::uint64_t bytes, char* out) {
  if (!fd_) open();
  for (std::uint64_t done = 0; done < bytes;) {
    const ssize_t size =
        ::pread(fd_.get(), out + done, bytes - done, static_cast<off_t>(begin + done));
    if (size < 0 && errno == EINTR) continue;
    TORCH_CHECK(size >= 0, "cannot read ", path_, ": ", problem());
    TORCH_CHECK(size > 0, path_, " is damaged: it has ", begin + done, " bytes; expected ", bytes_);
    done += static_cast<std::uint64_t>(size);
  }
}

void CheckpointFile::verify(std::uint64_t block, std::string_view bytes) {
  const std::uint64_t from = block * kChecksumBlock;
  TORCH_CHECK(block < record_->checksums.size() &&
                  checksum(bytes.data(), bytes.size()) == record_->checksums[block],
              path_, " is damaged: the checksum of bytes ", from, " to ", from + bytes.size() - 1,
              " is wrong; load another checkpoint");
  verified_[block] = true;
}

void CheckpointFile::read_bytes(std::uint64_t begin, std::uint64_t bytes, char* out) {
  if (!record_) return read_unchecked(begin, bytes, out);
  const std::uint64_t end = begin + bytes;
  std::string whole;  // A block of which only a part is needed.
  for (std::uint64_t at = begin; at < end;) {
    const std::uint64_t block = at / kChecksumBlock, from = block * kChecksumBlock;
    const std::uint64_t size = std::min(kChecksumBlock, bytes_ - from);
    const std::uint64_t now = std::min(end, from + size) - at;
    if (verified_[block] || now == size) {
      read_unchecked(at, now, out);
      if (!verified_[block]) verify(block, {out, now});
    } else {
      whole.resize(size);
      read_unchecked(from, size, whole.data());
      verify(block, whole);
      std::memcpy(out, whole.data() + (at - from), now);
    }
    at += now;
    out += now;
  }
}

void CheckpointFile::read(const SafetensorsEntry& entry, const Box& part,
                          const at::Tensor& target) {
  if (part.numel() == 0) return;
  const std::uint64_t begin = file_.data_begin + entry.begin;
  const auto read_rows = [&](const Box& rows, std::uint64_t first, std::uint64_t bytes) {
    at::Tensor values = at::empty(rows.sizes, at::TensorOptions().dtype(entry.dtype));
    read_bytes(begin + first, bytes, static_cast<char*>(values.mutable_data_ptr()));
    return values;
  };
  if (part.sizes.empty()) {
    target.copy_(read_rows(part, 0, c10::elementSize(entry.dtype)));
    return rest();
  }
  // Rows of the entry are contiguous, so only those of the part are read, a few at a time.
  auto row = static_cast<std::int64_t>(c10::elementSize(entry.dtype));
  for (std::size_t d = 1; d < entry.box.sizes.size(); ++d) row *= entry.box.sizes[d];
  const std::int64_t rows_max = std::max<std::int64_t>(1, kReadBytesMax / row);
  for (std::int64_t done = 0; done < part.sizes[0]; done += rows_max) {
    Box rows = entry.box, piece = part;
    rows.offsets[0] = piece.offsets[0] = part.offsets[0] + done;
    rows.sizes[0] = piece.sizes[0] = std::min(rows_max, part.sizes[0] - done);
    const std::int64_t first = (rows.offsets[0] - entry.box.offsets[0]) * row;
    const at::Tensor values = read_rows(rows, static_cast<std::uint64_t>(first),
                                        static_cast<std::uint64_t>(rows.sizes[0] * row));
    target.narrow(0, done, rows.sizes[0]).copy_(narrowed(values, rows, piece));
  }
  rest();
}

}  // namespace distrun::internal
