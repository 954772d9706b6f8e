#include "common/os/temporary_folder.h"

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <vector>

namespace distrun {

Result<TemporaryFolder> TemporaryFolder::make(const Environment& environment) {
  auto folder = make_temporary_folder(environment, "distrun");
  if (!folder) return folder.error();
  return TemporaryFolder(std::move(*folder));
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;  // The folder remains if a worker still writes there.
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

Result<std::string> make_unique_folder(std::string path) {
  path += "_XXXXXX";
  if (::mkdtemp(path.data()) == nullptr) return Error::from_errno("make a folder " + path);
  return path;
}

Result<std::string> make_temporary_folder(const Environment& environment, const std::string& name) {
  std::vector<std::string> places;
  for (const char* variable : {"TMPDIR", "TEMP", "TMP"}) {
    if (const auto place = environment.get(variable); place && !place->empty()) {
      places.emplace_back(*place);
    }
  }
  for (const char* place : {"/tmp", "/var/tmp", "/usr/tmp", "."}) places.emplace_back(place);

  std::optional<Error> first;
  for (const std::string& place : places) {
    std::error_code error;
    const auto absolute = std::filesystem::absolute(place, error).lexically_normal();
    auto folder = error ? Error::from_errno("make a folder in " + place, error.value())
                        : make_unique_folder((absolute / name).string());
    if (folder) return folder;
    if (!first) first = folder.error();
  }
  first->message +=
      "; every other folder for temporary files failed too: set TMPDIR to a writable folder";
  return *first;
}

}  // namespace distrun
