// Zip files, by minizip.
//
//     ZipWriter zip("/tmp/run.zip");
//     zip.add("notes.txt", text);                  // also from a descriptor
//     if (const auto written = zip.finish(); !written) return written.error();
//
//     auto member = ZipMember::open("run.zip", "notes.txt");
//     if (!member) return member.error();          // "run.zip: not a zip file"
//     if (!*member) …                              // It has no such member.
//     auto size = (*member)->read(buffer);         // 0: the end
//
// Not installed. Thread safety: none.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "distrun/result.h"

namespace distrun {

class ZipWriter {
 public:
  // Replaces the file `path`.
  explicit ZipWriter(const std::string& path);
  ~ZipWriter();
  ZipWriter(const ZipWriter&) = delete;
  ZipWriter& operator=(const ZipWriter&) = delete;

  void add(const std::string& name, std::string_view bytes);
  // The whole file of `fd`.
  void add_file(const std::string& name, int fd);

  // Ends the file. Returns the first error of all calls.
  Result<void> finish();

 private:
  void begin_member(const std::string& name, std::size_t size);
  void write(const void* bytes, std::size_t size);
  void end_member();
  void keep_error(int code);

  void* zip_;
  std::optional<Error> error_;
};

class ZipMember {
 public:
  // Fails if the file is not a zip file. nullptr if it has no such member.
  static Result<std::unique_ptr<ZipMember>> open(const std::string& path, const std::string& name);
  ~ZipMember();
  ZipMember(const ZipMember&) = delete;
  ZipMember& operator=(const ZipMember&) = delete;

  // Reads until `into` is full or the member ends, and returns the number of bytes. Fails if the
  // bytes are damaged.
  Result<std::size_t> read(std::span<char> into);

 private:
  ZipMember(std::string path, std::string name, void* zip)
      : path_(std::move(path)), name_(std::move(name)), zip_(zip) {}
  Error damaged() const;

  std::string path_, name_;
  void* zip_;
  bool has_ended_ = false;
};

// The whole member; nullopt if there is none. Fails if it is longer than `bytes_max`.
Result<std::optional<std::string>> read_zip_member(const std::string& path, const std::string& name,
                                                   std::size_t bytes_max);

}  // namespace distrun
