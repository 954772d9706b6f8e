// The header of a safetensors file: which tensors the file contains, and where.
//
//     const std::string header = safetensors_header(entries);   // The data follows it at once.
//     const auto parsed = parse_safetensors_header(bytes, file_size);
//
// A file is the length of the JSON header (8 bytes, little-endian), the header, and the data. An
// entry can be a part of a tensor: its offsets are in the metadata, as PyTorch's
// HuggingFaceStorageWriter writes them and its HuggingFaceStorageReader reads them.
//
// Pure. PyTorch source: torch/distributed/checkpoint/_hf_utils.py, hf_storage.py.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <c10/core/ScalarType.h>

#include "distrun/result.h"
#include "parallel/checkpoint/box.h"

namespace distrun::internal {

struct SafetensorsEntry {
  std::string name;
  at::ScalarType dtype = at::kFloat;  // Undefined if the parser does not know it.
  Box box;                            // The part of the tensor.
  std::uint64_t begin = 0;            // In the data: set by place_entries() or by the parser.
  std::uint64_t bytes = 0;            // The same.
};

// Whether the format has the dtype.
bool has_safetensors_dtype(at::ScalarType dtype);

// Sets the places of the data: the largest elements first, so that all are aligned. Returns the
// bytes of all. Requires dtypes that the format has.
std::uint64_t place_entries(std::vector<SafetensorsEntry>& entries);

// The length and the header. Its length is a multiple of 8.
std::string safetensors_header(const std::vector<SafetensorsEntry>& entries);

struct SafetensorsFile {
  std::vector<SafetensorsEntry> entries;
  std::uint64_t data_begin = 0;  // In the file.
};

// The bytes of length and header that a file with this beginning has: 8 bytes or more are needed.
// Fails with kInvalidArgument if it is not plausible for a file of `file_size` bytes.
Result<std::uint64_t> safetensors_header_size(std::string_view begin, std::uint64_t file_size);

// Parses length and header. Fails with kInvalidArgument if they are malformed, or if the data of an
// entry is not in the file or does not have the size of the entry.
Result<SafetensorsFile> parse_safetensors_header(std::string_view header, std::uint64_t file_size);

}  // namespace distrun::internal
