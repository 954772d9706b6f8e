#include "recording/recording_writer.h"

#include <algorithm>
#include <deque>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/os/result_file.h"
#include "common/os/unnamed_file.h"
#include "common/units.h"
#include "recording/zip_file.h"

namespace distrun {

namespace {

using std::chrono::steady_clock;
using std::chrono::system_clock;

constexpr std::size_t kBufferBytes = 64 * kKiB;

// Writes to the same stream in this time are one line of output.jsonl.
constexpr std::chrono::milliseconds kOneWrite{10};

const char* name_of(Printed to) { return to == Printed::kStdout ? "stdout" : "stderr"; }

// Where the data wait for finish(): beside the file, whose disk has the room. If the file is not a
// regular one, or its folder takes no new files, in TMPDIR.
std::string folder_for(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code none;
  const fs::path target = fs::weakly_canonical(fs::absolute(path, none), none);
  const bool is_regular = fs::is_regular_file(target, none) || !fs::exists(target, none);
  std::string folder = target.parent_path().string();
  if (is_regular && make_unnamed_file(folder)) return folder;
  const fs::path temporary = fs::temp_directory_path(none);
  return none ? "/tmp" : temporary.string();
}

// The bytes of a file, as long as it lives.
class MappedFile {
 public:
  static Result<MappedFile> of(int fd) {
    struct stat status {};
    if (::fstat(fd, &status) != 0) return Error::from_errno("read the zip file");
    const auto size = static_cast<std::size_t>(status.st_size);
    void* const bytes = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (bytes == MAP_FAILED) return Error::from_errno("read the zip file");
    return MappedFile(bytes, size);
  }
  MappedFile(MappedFile&& other) noexcept
      : bytes_(std::exchange(other.bytes_, nullptr)), size_(other.size_) {}
  MappedFile& operator=(MappedFile&&) = delete;
  ~MappedFile() {
    if (bytes_ != nullptr) ::munmap(bytes_, size_);
  }
  std::string_view text() const { return {static_cast<const char*>(bytes_), size_}; }

 private:
  MappedFile(void* bytes, std::size_t size) : bytes_(bytes), size_(size) {}
  void* bytes_;
  std::size_t size_;
};

Result<void> add_files(ZipWriter& zip, const std::string& name, const std::string& folder) {
  std::error_code error;
  std::vector<std::filesystem::path> paths;
  std::filesystem::recursive_directory_iterator entry(folder, error), end;
  for (; !error && entry != end; entry.increment(error)) {
    const auto kind = entry->symlink_status(error).type();
    if (kind == std::filesystem::file_type::regular) paths.push_back(entry->path());
  }
  if (error) return Error::from_errno("read " + folder, error.value());
  std::sort(paths.begin(), paths.end());
  for (const auto& path : paths) {
    // A file that became a FIFO must not block.
    const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (!file) return Error::from_errno("read " + path.string());
    zip.add_file(name + '/' + path.lexically_relative(folder).string(), file.get());
  }
  return {};
}

}  // namespace

struct RecordingWriter::Impl {
  struct Member {
    std::string name;
    UniqueFd file;
    std::string buffer;
  };
  struct Write {
    Printed to = Printed::kStdout;
    steady_clock::time_point at;
    std::size_t bytes = 0;
  };

  Impl(const std::string& path, ResultFile file)
      : folder(folder_for(path)), result(std::move(file)) {}

  const std::string folder;
  ResultFile result;
  const steady_clock::time_point started = steady_clock::now();
  const system_clock::time_point began = system_clock::now();
  std::deque<Member> members;                                // In the order of their first use.
  std::vector<std::pair<std::string, std::string>> folders;  // Name and path.
  std::optional<Write> write;                                // Not yet in output.jsonl.
  std::optional<Error> error;                                // The first one.

  Member* member(const std::string& name) {
    for (Member& one : members) {
      if (one.name == name) return &one;
    }
    auto file = make_unnamed_file(folder);
    if (!file) {
      if (!error) error = file.error();
      return nullptr;
    }
    members.push_back({.name = name, .file = std::move(*file), .buffer = ""});
    return &members.back();
  }

  void add(const std::string& name, std::string_view bytes) {
    if (error) return;
    Member* const to = member(name);
    if (to == nullptr) return;
    to->buffer += bytes;
    if (to->buffer.size() >= kBufferBytes) flush(*to);
  }

  void flush(Member& one) {
    std::string_view left = one.buffer;
    while (!left.empty() && !error) {
      const ssize_t done = ::write(one.file.get(), left.data(), left.size());
      if (done > 0) left.remove_prefix(static_cast<std::size_t>(done));
      if (done < 0 && errno != EINTR) error = Error::from_errno("write in " + folder);
    }
    one.buffer.clear();
  }

  void end_write() {
    if (!write) return;
    const auto since = std::chrono::floor<std::chrono::milliseconds>(write->at - started);
    add("output.jsonl", fmt::format("{{\"ms\": {}, \"to\": \"{}\", \"bytes\": {}}}\n",
                                    since.count(), name_of(write->to), write->bytes));
    write.reset();
  }
};

RecordingWriter::RecordingWriter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
RecordingWriter::RecordingWriter(RecordingWriter&&) noexcept = default;
RecordingWriter::~RecordingWriter() = default;

Result<RecordingWriter> RecordingWriter::open(const std::string& path) {
  auto file = ResultFile::open(path);
  if (!file) return file.error().with_context("--record");
  auto impl = std::make_unique<Impl>(path, std::move(*file));
  // People who list the members see these first, also if a run prints nothing.
  for (const char* name : {"recording.json", "stdout", "stderr", "output.jsonl"}) {
    impl->member(name);
  }
  if (impl->error) return impl->error->with_context("--record " + path);
  return RecordingWriter(std::move(impl));
}

void RecordingWriter::printed(Printed to, std::string_view bytes) {
  if (bytes.empty()) return;
  const auto now = steady_clock::now();
  if (impl_->write && (impl_->write->to != to || now - impl_->write->at > kOneWrite)) {
    impl_->end_write();
  }
  if (!impl_->write) impl_->write = {.to = to, .at = now, .bytes = 0};
  impl_->write->bytes += bytes.size();
  impl_->add(name_of(to), bytes);
}

void RecordingWriter::add(const std::string& name, std::string_view bytes) {
  impl_->add(name, bytes);
}

Result<std::string> RecordingWriter::path_of(const std::string& name) {
  const Impl::Member* const member = impl_->member(name);
  if (member == nullptr) return *impl_->error;
  return path_of_descriptor(member->file.get());
}

void RecordingWriter::add_folder(const std::string& name, const std::string& folder) {
  impl_->folders.emplace_back(name, folder);
}

Result<void> RecordingWriter::finish(RecordingFacts facts) {
  facts.began = impl_->began;
  facts.ended = system_clock::now();
  impl_->end_write();
  impl_->add("recording.json", recording_json(facts));
  for (Impl::Member& one : impl_->members) impl_->flush(one);
  if (impl_->error) return *impl_->error;
  const auto zipped = make_unnamed_file(impl_->folder);
  if (!zipped) return zipped.error();
  ZipWriter zip(path_of_descriptor(zipped->get()));
  for (Impl::Member& one : impl_->members) {
    zip.add_file(one.name, one.file.get());
    one.file.reset();  // Frees its space for the zip file.
  }
  for (const auto& [name, folder] : impl_->folders) {
    if (auto added = add_files(zip, name, folder); !added) return added;
  }
  if (auto written = zip.finish(); !written) return written;
  const auto mapped = MappedFile::of(zipped->get());
  if (!mapped) return mapped.error();
  return impl_->result.write(mapped->text());
}

}  // namespace distrun
