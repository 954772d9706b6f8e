#include "parallel/checkpoint/safetensors.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

namespace distrun::internal {

namespace {

using nlohmann::json;

constexpr std::size_t kLength = 8;
constexpr const char *kSharding = "DCP_SHARDING_INFO", *kOffsets = "saved_offsets";

struct DtypeName {
  at::ScalarType dtype;
  const char* name;
};
constexpr std::array kDtypes = {
    DtypeName{at::kDouble, "F64"},
    DtypeName{at::kFloat, "F32"},
    DtypeName{at::kHalf, "F16"},
    DtypeName{at::kBFloat16, "BF16"},
    DtypeName{at::kFloat8_e4m3fn, "F8_E4M3"},
    DtypeName{at::kFloat8_e5m2, "F8_E5M2"},
    DtypeName{at::kComplexFloat, "C64"},
    DtypeName{at::kLong, "I64"},
    DtypeName{at::kInt, "I32"},
    DtypeName{at::kShort, "I16"},
    DtypeName{at::kChar, "I8"},
    DtypeName{at::kByte, "U8"},
    DtypeName{at::kUInt16, "U16"},
    DtypeName{at::kUInt32, "U32"},
    DtypeName{at::kUInt64, "U64"},
    DtypeName{at::kBool, "BOOL"},
};

const char* name_of_dtype(at::ScalarType dtype) {
  const auto* const found = std::find_if(kDtypes.begin(), kDtypes.end(),
                                         [&](const DtypeName& one) { return one.dtype == dtype; });
  return found == kDtypes.end() ? nullptr : found->name;
}

std::optional<at::ScalarType> dtype_named(const std::string& name) {
  const auto* const found = std::find_if(kDtypes.begin(), kDtypes.end(),
                                         [&](const DtypeName& one) { return name == one.name; });
  if (found == kDtypes.end()) return std::nullopt;
  return found->dtype;
}

Error malformed(const std::string& problem) { return {ErrorKind::kInvalidArgument, problem}; }

std::vector<std::int64_t> numbers_in(const json& list) {
  std::vector<std::int64_t> numbers;
  for (const json& one : list) {
    const auto number = one.get<std::int64_t>();
    if (number < 0) throw std::out_of_range("a size or an offset is negative");
    numbers.push_back(number);
  }
  return numbers;
}

// Throws json::exception or std::out_of_range.
SafetensorsEntry entry_in(const std::string& name, const json& fields) {
  SafetensorsEntry entry{.name = name, .box = whole_box(numbers_in(fields.at("shape")))};
  const std::string dtype = fields.at("dtype").get<std::string>();
  entry.dtype = dtype_named(dtype).value_or(at::ScalarType::Undefined);
  const auto begin = fields.at("data_offsets").at(0).get<std::uint64_t>();
  const auto end = fields.at("data_offsets").at(1).get<std::uint64_t>();
  if (end < begin) throw std::out_of_range("its data ends before it begins");
  entry.begin = begin;
  entry.bytes = end - begin;
  if (entry.dtype == at::ScalarType::Undefined) return entry;
  std::uint64_t bytes = c10::elementSize(entry.dtype);
  for (const std::int64_t size : entry.box.sizes) {
    const auto factor = static_cast<std::uint64_t>(size);
    if (factor != 0 && bytes > std::numeric_limits<std::uint64_t>::max() / factor) {
      throw std::out_of_range("its shape is too large");
    }
    bytes *= factor;
  }
  if (bytes != entry.bytes) throw std::out_of_range("its data does not have the size of its shape");
  return entry;
}

void take_offsets(const json& sharding, SafetensorsEntry& entry) {
  entry.box.offsets = numbers_in(sharding.at(entry.name).at(kOffsets));
  if (entry.box.offsets.size() != entry.box.sizes.size()) {
    throw std::out_of_range("its offsets do not fit its shape");
  }
}

}  // namespace

bool has_safetensors_dtype(at::ScalarType dtype) { return name_of_dtype(dtype) != nullptr; }

std::uint64_t place_entries(std::vector<SafetensorsEntry>& entries) {
  std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return c10::elementSize(a.dtype) > c10::elementSize(b.dtype);
  });
  std::uint64_t end = 0;
  for (SafetensorsEntry& entry : entries) {
    entry.begin = end;
    entry.bytes = static_cast<std::uint64_t>(entry.box.numel()) * c10::elementSize(entry.dtype);
    end += entry.bytes;
  }
  return end;
}

std::string safetensors_header(const std::vector<SafetensorsEntry>& entries) {
  json header = json::object(), sharding = json::object();
  for (const SafetensorsEntry& entry : entries) {
    header[entry.name] = {{"dtype", name_of_dtype(entry.dtype)},
                          {"shape", entry.box.sizes},
                          {"data_offsets", {entry.begin, entry.begin + entry.bytes}}};
    sharding[entry.name] = {{kOffsets, entry.box.offsets}};
  }
  header["__metadata__"] = {{"format", "pt"}, {"DCP_VERSION", "1.0"}, {kSharding, sharding.dump()}};
  std::string text = header.dump();
  text.resize((text.size() + kLength - 1) / kLength * kLength, ' ');
  std::string whole(kLength, '\0');
  for (std::size_t i = 0; i < kLength; ++i) {
    whole[i] = static_cast<char>(text.size() >> (8 * i) & 0xFF);
  }
  return whole + text;
}

Result<std::uint64_t> safetensors_header_size(std::string_view begin, std::uint64_t file_size) {
  if (begin.size() < kLength) return malformed("it is too short for a safetensors file");
  std::uint64_t size = 0;
  for (std::size_t i = 0; i < kLength; ++i) {
    size |= std::uint64_t{static_cast<unsigned char>(begin[i])} << (8 * i);
  }
  if (size > file_size - kLength) {
    return malformed("it is not a safetensors file, or its end is missing");
  }
  return size + kLength;
}

Result<SafetensorsFile> parse_safetensors_header(std::string_view header, std::uint64_t file_size) {
  SafetensorsFile file{.entries = {}, .data_begin = header.size()};
  std::string name = "the header";
  try {
    const json all = json::parse(header.substr(std::min(header.size(), kLength)));
    json sharding;
    if (const auto metadata = all.find("__metadata__"); metadata != all.end()) {
      if (metadata->contains(kSharding)) {
        sharding = json::parse(metadata->at(kSharding).get<std::string>());
      }
    }
    for (const auto& [key, fields] : all.items()) {
      if (key == "__metadata__") continue;
      name = "'" + key + "'";
      SafetensorsEntry entry = entry_in(key, fields);
      if (!sharding.is_null()) take_offsets(sharding, entry);
      const std::uint64_t data = file_size - file.data_begin;
      if (entry.begin > data || entry.bytes > data - entry.begin) {
        throw std::out_of_range("its data is not in the file");
      }
      file.entries.push_back(std::move(entry));
    }
  } catch (const std::exception& error) {
    return malformed(name + ": " + error.what());
  }
  return file;
}

}  // namespace distrun::internal
