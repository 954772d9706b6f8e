#include "parallel/checkpoint/checkpoint_folder.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <sstream>
#include <system_error>
#include <utility>

#include <c10/util/Exception.h>
#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/os/unique_fd.h"
#include "common/os/write_all.h"
#include "parallel/checkpoint/checkpoint_index.h"
#include "parallel/checkpoint/folder_checks.h"

namespace distrun::internal {

namespace {

namespace fs = std::filesystem;

constexpr const char *kUnfinished = ".unfinished", *kOld = ".old", *kSuffix = ".safetensors";

std::string message_of_errno() { return std::generic_category().message(errno); }

// Without a slash at the end, so that names can be appended. A link is replaced by its target,
// because the new folder takes the place of the old one, and not of the link.
std::string plain(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  if (!fs::is_symlink(path)) return path;
  TORCH_CHECK(fs::exists(path), path, " is a link to a path that does not exist");
  return fs::canonical(path).string();
}

std::vector<std::string> safetensors_in(const std::string& folder) {
  std::vector<std::string> paths;
  for (const auto& one : fs::directory_iterator(folder)) {
    if (one.path().string().ends_with(kSuffix)) paths.push_back(one.path().string());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

// Not std::filesystem::remove_all(): LibTorch 2.11 exports its own, which crashes.
void remove_folder(const std::string& path) {
  const auto remove = [](const char* file, const struct stat* /*status*/, int /*type*/,
                         FTW* /*place*/) { return std::remove(file); };
  const int done = ::nftw(path.c_str(), remove, /*nopenfd=*/8, FTW_DEPTH | FTW_PHYS);
  TORCH_CHECK(done == 0 || errno == ENOENT, "cannot remove ", path, ": ", message_of_errno());
}

// Creates the folder of a save, and removes that of an interrupted one.
//
// The lock of a save is on this folder, which then takes the place of `path`. So a save is in
// progress if a folder with one of the two names is locked. Look at `path` last, as the locked
// folder moves there.
FolderLock own_folder(const std::string& path, const std::string& unfinished) {
  const auto check = [&](bool is_alone) {
    TORCH_CHECK(is_alone, "another save to ", path,
                " is in progress; wait until it ends, or save elsewhere");
  };
  const bool is_left = fs::exists(unfinished);
  if (is_left) check_leftover(unfinished);
  FolderLock left;
  if (is_left) {
    left = FolderLock(unfinished);
    check(left.is_held());
  }
  if (fs::exists(path)) check(FolderLock(path).is_held());
  if (is_left) remove_folder(unfinished);
  const bool is_new = fs::create_directory(unfinished);
  FolderLock own(unfinished);
  check(is_new && own.is_held());
  if (fs::exists(path)) {  // A folder that others cannot read stays so.
    fs::permissions(unfinished, fs::status(path).permissions() | fs::perms::owner_all);
  }
  return own;
}

void sync_folder(const std::string& folder) {
  const UniqueFd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  TORCH_CHECK(fd && ::fsync(fd.get()) == 0, "cannot write ", folder, ": ", message_of_errno());
}

void write_index(const std::string& folder, const std::vector<FileRecord>& files) {
  const std::string path = folder + "/" + kIndexName;
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  TORCH_CHECK(fd && write_all(fd.get(), index_text(files)) && ::fsync(fd.get()) == 0,
              "cannot write ", path, ": ", message_of_errno());
}

void rename_folder(const std::string& from, const std::string& to) {
  TORCH_CHECK(::rename(from.c_str(), to.c_str()) == 0, "cannot rename ", from, " to ", to, ": ",
              message_of_errno());
}

// Afterwards, `unfinished` is the old checkpoint, or does not exist.
void put_in_place(const std::string& unfinished, const std::string& path) {
  if (!fs::exists(path)) return rename_folder(unfinished, path);
  if (::renameat2(AT_FDCWD, unfinished.c_str(), AT_FDCWD, path.c_str(), RENAME_EXCHANGE) == 0) {
    return;
  }
  TORCH_CHECK(errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP, "cannot replace ", path,
              ": ", message_of_errno());
  const std::string old = path + kOld;
  if (fs::exists(old)) check_leftover(old);
  remove_folder(old);
  rename_folder(path, old);
  rename_folder(unfinished, path);
  remove_folder(old);
}

// A list starts with its kind. With an index, the path of the folder, a zero and the index follow.
// Without one, the paths of the files follow, each with a zero at its end. No path has a zero, and
// the index, which may be damaged, has any bytes.
constexpr char kWithIndex = 'i', kWithoutIndex = 'f';

std::string list_with_index(const std::string& folder, const std::string& index) {
  return kWithIndex + folder + '\0' + index;
}

std::string list_of(const std::vector<std::string>& files) {
  std::string text(1, kWithoutIndex);
  for (const std::string& file : files) text += file + '\0';
  return text;
}

std::vector<FileRecord> records_in(const std::string& folder, const std::string& index) {
  auto records = parse_index(index);
  TORCH_CHECK(records || !is_newer(records.error()), folder, ": ", records.error().message);
  TORCH_CHECK(records.has_value(), folder, "/", kIndexName,
              " is damaged: ", records.error().message);
  return std::move(*records);
}

// std::filesystem's errors as c10::Error.
template <class Act>
auto with_folder(const std::string& path, const Act& act) {
  try {
    return act();
  } catch (const fs::filesystem_error& error) {
    const std::string where = error.path1().empty() ? path : error.path1().string();
    TORCH_CHECK(false, "cannot use ", where, ": ", error.code().message());
  }
}

}  // namespace

std::string unfinished_name(const std::string& path) { return plain(path) + kUnfinished; }

FolderLock begin_checkpoint(const std::string& given) {
  return with_folder(given, [&] {
    const std::string path = plain(given), name = fs::path(path).filename().string();
    TORCH_CHECK(!name.empty() && name != "." && name != "..", "'", given,
                "' is not a path to a folder with a name");
    if (const auto above = fs::path(path).parent_path(); !above.empty()) {
      fs::create_directories(above);
    }
    if (fs::exists(path)) check_replaceable(path);
    return own_folder(path, unfinished_name(path));
  });
}

void commit_checkpoint(const std::string& unfinished, const std::string& given,
                       const std::vector<FileRecord>& files) {
  with_folder(given, [&] {
    const std::string path = plain(given);
    for (const FileRecord& file : files) {
      const fs::path one = unfinished + "/" + file.name;
      TORCH_CHECK(fs::exists(one) && fs::file_size(one) == file.bytes, one.string(),
                  " of another rank is not here; all ranks must see the same folder");
    }
    write_index(unfinished, files);
    sync_folder(unfinished);
    put_in_place(unfinished, path);
    // The new checkpoint is in place, whatever happens now.
    try {
      const auto above = fs::path(path).parent_path();
      sync_folder(above.empty() ? "." : above.string());
      remove_folder(unfinished);
    } catch (const c10::Error& error) {
      TORCH_WARN("save_checkpoint: ", error.what_without_backtrace(), " (", path,
                 " is saved, and is the new checkpoint)");
    }
  });
}

void discard_checkpoint(const std::string& unfinished) noexcept {
  try {
    remove_folder(unfinished);
  } catch (const c10::Error&) {
    // The next save removes it, and the caller has an error already.
  }
}

std::string find_checkpoint(const std::string& given) {
  return with_folder(given, [&]() -> std::string {
    std::string path = plain(given);
    if (!fs::exists(path) && has_index(path + kOld)) path += kOld;
    TORCH_CHECK(fs::exists(path), path.empty() ? "''" : path, " does not exist");
    if (!fs::is_directory(path)) return list_of({path});
    if (has_index(path)) return list_with_index(path, index_in(path));
    auto files = safetensors_in(path);
    TORCH_CHECK(!files.empty(), path, " is not a checkpoint: it has neither ", kIndexName,
                " nor safetensors files");
    return list_of(files);
  });
}

std::vector<std::unique_ptr<CheckpointFile>> open_checkpoint(const std::string& list) {
  std::vector<std::unique_ptr<CheckpointFile>> files;
  if (list.at(0) == kWithoutIndex) {
    std::istringstream paths(list.substr(1));
    for (std::string path; std::getline(paths, path, '\0');) {
      files.push_back(std::make_unique<CheckpointFile>(path, std::nullopt));
    }
    return files;
  }
  const std::size_t end = list.find('\0');
  const std::string folder = list.substr(1, end - 1);
  for (FileRecord& record : records_in(folder, list.substr(end + 1))) {
    const std::string name = folder + "/" + record.name;
    files.push_back(std::make_unique<CheckpointFile>(name, std::move(record)));
  }
  return files;
}

}  // namespace distrun::internal
