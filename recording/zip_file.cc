#include "recording/zip_file.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>
#include <utility>

#include <fmt/format.h>
#include <minizip/unzip.h>
#include <minizip/zip.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "common/units.h"

namespace distrun {

namespace {

constexpr std::size_t kPieceBytes = 256 * kKiB;
// Larger members get the zip64 format. The limit of the other is 4 GiB, and noise grows when it is
// compressed.
constexpr std::size_t kBytesMax32 = 2 * kGiB;

zip_fileinfo made_now() {
  zip_fileinfo info{};
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  ::localtime_r(&now, &local);
  info.tmz_date.tm_sec = local.tm_sec;
  info.tmz_date.tm_min = local.tm_min;
  info.tmz_date.tm_hour = local.tm_hour;
  info.tmz_date.tm_mday = local.tm_mday;
  info.tmz_date.tm_mon = local.tm_mon;
  info.tmz_date.tm_year = local.tm_year + 1900;
  info.external_fa = 0100644UL << 16;  // Else unzip makes files without any permission.
  return info;
}

}  // namespace

ZipWriter::ZipWriter(const std::string& path)
    : zip_(::zipOpen64(path.c_str(), APPEND_STATUS_CREATE)) {
  if (zip_ == nullptr) error_ = Error::from_errno("write " + path);
}

ZipWriter::~ZipWriter() {
  if (zip_ != nullptr) ::zipClose(zip_, nullptr);
}

void ZipWriter::keep_error(int code) {
  if (code == ZIP_OK || error_) return;
  error_ = Error::from_errno("write the zip file", code == ZIP_ERRNO && errno != 0 ? errno : EIO);
}

void ZipWriter::begin_member(const std::string& name, std::size_t size) {
  if (error_) return;
  constexpr int kLevel = Z_BEST_SPEED;  // Runs may print gigabytes.
  constexpr unsigned long kMadeByUnix = 3 << 8 | 20;
  const zip_fileinfo info = made_now();
  errno = 0;
  keep_error(::zipOpenNewFileInZip4_64(
      zip_, name.c_str(), &info, nullptr, 0, nullptr, 0, nullptr, Z_DEFLATED, kLevel, 0, -MAX_WBITS,
      DEF_MEM_LEVEL, Z_DEFAULT_STRATEGY, nullptr, 0, kMadeByUnix, 0, size >= kBytesMax32));
}

void ZipWriter::write(const void* bytes, std::size_t size) {
  if (error_) return;
  errno = 0;
  keep_error(::zipWriteInFileInZip(zip_, bytes, static_cast<unsigned>(size)));
}

void ZipWriter::end_member() {
  if (error_) return;
  errno = 0;
  keep_error(::zipCloseFileInZip(zip_));
}

void ZipWriter::add(const std::string& name, std::string_view bytes) {
  begin_member(name, bytes.size());
  for (; !bytes.empty(); bytes.remove_prefix(std::min(kPieceBytes, bytes.size()))) {
    write(bytes.data(), std::min(kPieceBytes, bytes.size()));
  }
  end_member();
}

void ZipWriter::add_file(const std::string& name, int fd) {
  struct stat status {};
  if (::fstat(fd, &status) != 0 && !error_) error_ = Error::from_errno("read " + name);
  begin_member(name, static_cast<std::size_t>(status.st_size));
  std::string buffer(kPieceBytes, '\0');
  for (off_t at = 0; !error_;) {
    const ssize_t size = ::pread(fd, buffer.data(), buffer.size(), at);
    if (size < 0) error_ = Error::from_errno("read " + name);
    if (size <= 0) break;
    write(buffer.data(), static_cast<std::size_t>(size));
    at += size;
  }
  end_member();
}

Result<void> ZipWriter::finish() {
  errno = 0;
  if (zip_ != nullptr) keep_error(::zipClose(std::exchange(zip_, nullptr), nullptr));
  if (error_) return *error_;
  return {};
}

Result<std::unique_ptr<ZipMember>> ZipMember::open(const std::string& path,
                                                   const std::string& name) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return Error::from_errno(path);
  if (!S_ISREG(status.st_mode)) {  // A FIFO would wait for a writer.
    const char* const what = S_ISDIR(status.st_mode) ? ": is a folder" : ": is not a regular file";
    return Error{ErrorKind::kInvalidArgument, path + what};
  }
  if (::access(path.c_str(), R_OK) != 0) return Error::from_errno(path);
  void* const zip = ::unzOpen64(path.c_str());
  if (zip == nullptr) return Error{ErrorKind::kInvalidArgument, path + ": is not a zip file"};
  std::unique_ptr<ZipMember> member(new ZipMember(path, name, zip));
  const int found = ::unzLocateFile(zip, name.c_str(), /*iCaseSensitivity=*/1);
  if (found == UNZ_END_OF_LIST_OF_FILE) return std::unique_ptr<ZipMember>();
  if (found != UNZ_OK) return member->damaged();
  if (::unzOpenCurrentFile(zip) != UNZ_OK) return member->damaged();
  return member;
}

ZipMember::~ZipMember() { ::unzClose(zip_); }

Error ZipMember::damaged() const {
  return {ErrorKind::kInvalidArgument, path_ + ": is damaged, in " + name_};
}

Result<std::size_t> ZipMember::read(std::span<char> into) {
  std::size_t done = 0;
  while (done < into.size() && !has_ended_) {
    const auto size = ::unzReadCurrentFile(
        zip_, into.data() + done, static_cast<unsigned>(std::min(kPieceBytes, into.size() - done)));
    if (size < 0) return damaged();
    done += static_cast<std::size_t>(size);
    if (size > 0) continue;
    has_ended_ = true;
    if (::unzCloseCurrentFile(zip_) != UNZ_OK) return damaged();  // Compares the checksum.
  }
  return done;
}

Result<std::optional<std::string>> read_zip_member(const std::string& path, const std::string& name,
                                                   std::size_t bytes_max) {
  auto member = ZipMember::open(path, name);
  if (!member) return member.error();
  if (!*member) return std::optional<std::string>();
  std::string text;
  std::array<char, 64 * kKiB> buffer;
  while (true) {
    const auto size = (*member)->read(buffer);
    if (!size) return size.error();
    if (*size == 0) return std::optional(std::move(text));
    text.append(buffer.data(), *size);
    if (text.size() > bytes_max) {
      return Error{ErrorKind::kInvalidArgument,
                   fmt::format("{}: {} is longer than distrun reads", path, name)};
    }
  }
}

}  // namespace distrun
