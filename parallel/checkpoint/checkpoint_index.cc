#include "parallel/checkpoint/checkpoint_index.h"

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

namespace distrun::internal {

namespace {

using nlohmann::ordered_json;

constexpr const char* kFormat = "distrun checkpoint";
constexpr int kVersion = 1;

std::string hexadecimal(std::uint64_t number) {
  std::string text(16, '0');
  for (std::size_t i = 0; i < text.size(); ++i) {
    text[text.size() - 1 - i] = "0123456789abcdef"[number >> (4 * i) & 0xF];
  }
  return text;
}

std::uint64_t number_in(const std::string& text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, 16);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw std::invalid_argument("'" + text + "' is not a checksum");
  }
  return number;
}

}  // namespace

std::string index_text(const std::vector<FileRecord>& files) {
  ordered_json list = ordered_json::array();
  for (const FileRecord& file : files) {
    ordered_json checksums = ordered_json::array();
    for (const std::uint64_t one : file.checksums) checksums.push_back(hexadecimal(one));
    list.push_back({{"name", file.name}, {"bytes", file.bytes}, {"xxh3_64", std::move(checksums)}});
  }
  const ordered_json index = {{"format", kFormat},
                              {"version", kVersion},
                              {"block_bytes", kChecksumBlock},
                              {"files", std::move(list)}};
  return index.dump(1) + "\n";
}

Result<std::vector<FileRecord>> parse_index(std::string_view text) {
  try {
    const auto index = nlohmann::json::parse(text);
    if (index.at("format") != kFormat) throw std::invalid_argument("it has another format");
    if (const auto version = index.at("version").get<std::int64_t>(); version > kVersion) {
      return Error{ErrorKind::kProtocol, "a newer distrun has written it in format " +
                                             std::to_string(version) +
                                             ", and this distrun reads formats up to " +
                                             std::to_string(kVersion) + "; update distrun"};
    } else if (version != kVersion || index.at("block_bytes") != kChecksumBlock) {
      throw std::invalid_argument("its version or its block_bytes is wrong");
    }
    std::vector<FileRecord> files;
    for (const auto& one : index.at("files")) {
      FileRecord file{.name = one.at("name").get<std::string>(),
                      .bytes = one.at("bytes").get<std::uint64_t>()};
      if (file.name.empty() || file.name.find('/') != std::string::npos) {
        throw std::invalid_argument("'" + file.name + "' is not the name of a file");
      }
      for (const auto& text_of_one : one.at("xxh3_64")) {
        file.checksums.push_back(number_in(text_of_one.get<std::string>()));
      }
      files.push_back(std::move(file));
    }
    return files;
  } catch (const std::exception& error) {
    return Error{ErrorKind::kInvalidArgument, error.what()};
  }
}

}  // namespace distrun::internal
