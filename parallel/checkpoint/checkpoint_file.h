// Files of a checkpoint: written by one rank each, read by any.
//
//     const FileRecord record = write_checkpoint_file(folder, "shard-….safetensors", parts);
//     const CheckpointFile file(folder + "/" + record.name, record);
//     file.read(file.entries()[0], box, tensor);
//
// A record has a checksum for each block of a file, so a rank that reads a part of a file compares
// the checksums of only the blocks that it reads.
//
// Throws: c10::Error, whose text names the file and the problem. Thread safety: one thread at a
// time for each object.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <sys/types.h>

#include "common/os/unique_fd.h"
#include "parallel/checkpoint/safetensors.h"

namespace distrun::internal {

inline constexpr std::uint64_t kChecksumBlock = std::uint64_t{1} << 20;

// XXH3 with 64 bits.
std::uint64_t checksum(const void* data, std::size_t bytes);

// The entry of a file in the index of its checkpoint.
struct FileRecord {
  std::string name;
  std::uint64_t bytes = 0;
  std::vector<std::uint64_t> checksums;  // Of each kChecksumBlock bytes; the last may be shorter.
};

// A part of a tensor, and its values.
struct FilePart {
  std::string name;  // Of the tensor; each name once in a file.
  Box box;
  at::Tensor values;  // With the sizes of the box.
};

// Writes a new file, and waits until it is on the disk.
FileRecord write_checkpoint_file(const std::string& folder, const std::string& name,
                                 const std::vector<FilePart>& parts);

class CheckpointFile {
 public:
  // Reads the header. Without a record, as for a file that another program has written, no
  // checksums are compared.
  CheckpointFile(std::string path, std::optional<FileRecord> record);

  const std::vector<SafetensorsEntry>& entries() const { return file_.entries; }

  // Copies a part of an entry into `target`, which has the sizes of the part, and converts its
  // dtype. `part` is a box in the whole tensor, within the entry.
  void read(const SafetensorsEntry& entry, const Box& part, const at::Tensor& target);

 private:
  void open();
  // Frees its descriptor if it is one of many.
  void rest();
  void read_header();
  // Copies bytes of the file to `out`. Compares the checksums of the blocks that contain them, each
  // once.
  void read_bytes(std::uint64_t begin, std::uint64_t bytes, char* out);
  void read_unchecked(std::uint64_t begin, std::uint64_t bytes, char* out);
  void verify(std::uint64_t block, std::string_view bytes);

  const std::string path_;
  const std::optional<FileRecord> record_;
  UniqueFd fd_;  // Not a mapping: a file that another program truncates would end this one.
  std::pair<dev_t, ino_t> identity_;
  std::uint64_t bytes_ = 0;
  std::vector<bool> verified_;  // By block.
  SafetensorsFile file_;
};

}  // namespace distrun::internal
