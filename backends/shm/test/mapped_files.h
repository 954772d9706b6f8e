// For tests: which files this process maps.
#pragma once

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace distrun::shm::test {

struct MappedFile {
  std::uintptr_t begin = 0, end = 0;
  std::string name;
};

inline std::vector<MappedFile> mapped_files() {
  std::ifstream maps("/proc/self/maps");
  std::vector<MappedFile> all;
  for (std::string line; std::getline(maps, line);) {
    MappedFile one;
    char dash = 0;
    std::string skipped;
    std::istringstream words(line);
    words >> std::hex >> one.begin >> dash >> one.end;
    for (int i = 0; i < 4; ++i) words >> skipped;  // Access, offset, device and inode.
    std::getline(words >> std::ws, one.name);
    all.push_back(one);
  }
  return all;
}

inline std::string mapped_file(const void* address) {
  const auto place = reinterpret_cast<std::uintptr_t>(address);
  for (const MappedFile& one : mapped_files()) {
    if (one.begin <= place && place < one.end) return one.name;
  }
  return "";
}

inline std::size_t mappings_of(const std::string& name) {
  const auto all = mapped_files();
  return static_cast<std::size_t>(std::count_if(
      all.begin(), all.end(), [&](const MappedFile& one) { return one.name == name; }));
}

}  // namespace distrun::shm::test
