#include "parallel/checkpoint/folder_checks.h"

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <system_error>

#include <c10/util/Exception.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "parallel/checkpoint/checkpoint_file.h"
#include "parallel/checkpoint/checkpoint_index.h"

namespace distrun::internal {

namespace {

namespace fs = std::filesystem;

constexpr const char* kWhatToDo = "; remove it, or save elsewhere";

// The kernel knows it since Linux 5.8. Before, only mounts of other file systems are seen.
bool is_mount_point(const std::string& path) {
  struct statx its {};
  if (::statx(AT_FDCWD, path.c_str(), 0, STATX_TYPE, &its) == 0 &&
      (its.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT) != 0) {
    return (its.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
  }
  struct stat folder {
  }, above{};
  return ::stat(path.c_str(), &folder) == 0 && ::stat((path + "/..").c_str(), &above) == 0 &&
         folder.st_dev != above.st_dev;
}

}  // namespace

bool has_index(const std::string& folder) { return fs::exists(folder + "/" + kIndexName); }

std::string index_in(const std::string& folder) {
  const std::string path = folder + "/" + kIndexName;
  std::ifstream file(path, std::ios::binary);
  TORCH_CHECK(file, "cannot read ", path, ": ", std::generic_category().message(errno));
  return std::string(std::istreambuf_iterator<char>(file), {});
}

void check_replaceable(const std::string& path) {
  TORCH_CHECK(fs::is_directory(path), path, " exists and is not a folder", kWhatToDo);
  TORCH_CHECK(!is_mount_point(path), path,
              " is a mount point, which cannot be replaced; save to a folder in it");
  std::set<std::string> names;
  if (has_index(path)) {
    const auto index = parse_index(index_in(path));
    TORCH_CHECK(index || !is_newer(index.error()), "cannot replace ", path, ": ",
                index.error().message);
    TORCH_CHECK(index.has_value(), path,
                " exists and is not a checkpoint of distrun: ", index.error().message, kWhatToDo);
    for (const FileRecord& file : *index) names.insert(file.name);
    names.insert(kIndexName);
  }
  for (const auto& one : fs::directory_iterator(path)) {
    TORCH_CHECK(names.contains(one.path().filename().string()), path, " has ",
                one.path().filename().string(), ", which is not part of a checkpoint", kWhatToDo);
  }
}

void check_leftover(const std::string& path) {
  TORCH_CHECK(fs::is_directory(path), path, " exists and is not a folder", kWhatToDo);
  for (const auto& one : fs::directory_iterator(path)) {
    const std::string name = one.path().filename().string();
    const bool is_file = name.starts_with("shard-") && name.ends_with(".safetensors");
    TORCH_CHECK(is_file || name == kIndexName, path, " has ", name,
                ", which is not part of an unfinished checkpoint", kWhatToDo);
  }
}

}  // namespace distrun::internal
