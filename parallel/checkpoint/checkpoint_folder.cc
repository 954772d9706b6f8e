#include "parallel/checkpoint/checkpoint_folder.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
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

namespace distrun::internal {

namespace {

namespace fs = std::filesystem;

constexpr const char *kUnfinished = ".tmp-", *kOld = ".old", *kSuffix = ".safetensors";

std::string message_of_errno() { return std::generic_category().message(errno); }

// Without a slash at the end, so that names can be appended.
std::string plain(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

bool has_index(const std::string& folder) { return fs::exists(folder + "/" + kIndexName); }

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

// Of the program that was interrupted: PATH.tmp-1, …
void remove_unfinished(const std::string& path) {
  const fs::path folder = fs::path(path).parent_path();
  const std::string begin = fs::path(path).filename().string() + kUnfinished;
  std::vector<fs::path> left;
  for (const auto& one : fs::directory_iterator(folder.empty() ? fs::path(".") : folder)) {
    if (one.path().filename().string().starts_with(begin)) left.push_back(one.path());
  }
  for (const fs::path& one : left) remove_folder(one.string());
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
  remove_folder(old);
  rename_folder(path, old);
  rename_folder(unfinished, path);
  remove_folder(old);
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

std::vector<FileRecord> read_index(const std::string& folder) {
  const std::string path = folder + "/" + kIndexName;
  std::ifstream file(path, std::ios::binary);
  TORCH_CHECK(file, "cannot read ", path, ": ", message_of_errno());
  const std::string text(std::istreambuf_iterator<char>(file), {});
  auto index = parse_index(text);
  TORCH_CHECK(index.has_value(), path, " is damaged: ", index.error().message);
  return std::move(*index);
}

}  // namespace

std::string begin_checkpoint(const std::string& given) {
  const std::string path = plain(given);
  TORCH_CHECK_VALUE(!path.empty(), "save_checkpoint: the path is empty");
  return with_folder(path, [&] {
    if (const auto above = fs::path(path).parent_path(); !above.empty()) {
      fs::create_directories(above);
    }
    TORCH_CHECK(
        !fs::exists(path) || (fs::is_directory(path) && (has_index(path) || fs::is_empty(path))),
        path, " exists and is not a checkpoint of distrun; remove it, or save elsewhere");
    remove_unfinished(path);
    for (int number = 1;; ++number) {
      std::string unfinished = path + kUnfinished + std::to_string(number);
      if (fs::create_directory(unfinished)) return unfinished;
    }
  });
}

void commit_checkpoint(const std::string& unfinished, const std::string& given,
                       const std::vector<FileRecord>& files) {
  const std::string path = plain(given);
  with_folder(path, [&] {
    for (const FileRecord& file : files) {
      const fs::path one = unfinished + "/" + file.name;
      TORCH_CHECK(fs::exists(one) && fs::file_size(one) == file.bytes, one.string(),
                  " of another rank is not here; all ranks must see the same folder");
    }
    write_index(unfinished, files);
    sync_folder(unfinished);
    put_in_place(unfinished, path);
    const auto above = fs::path(path).parent_path();
    sync_folder(above.empty() ? "." : above.string());
    remove_folder(unfinished);
  });
}

void discard_checkpoint(const std::string& unfinished) noexcept {
  try {
    remove_folder(unfinished);
  } catch (const c10::Error&) {
    // The next save removes it, and the caller has an error already.
  }
}

std::vector<std::unique_ptr<CheckpointFile>> open_checkpoint(const std::string& given) {
  std::string path = plain(given);
  return with_folder(path, [&] {
    std::vector<std::unique_ptr<CheckpointFile>> files;
    if (!fs::exists(path) && has_index(path + kOld)) path += kOld;
    TORCH_CHECK(fs::exists(path), path, " does not exist");
    if (!fs::is_directory(path)) {
      files.push_back(std::make_unique<CheckpointFile>(path, std::nullopt));
    } else if (has_index(path)) {
      for (FileRecord& record : read_index(path)) {
        const std::string name = path + "/" + record.name;
        files.push_back(std::make_unique<CheckpointFile>(name, std::move(record)));
      }
    } else {
      for (const std::string& one : safetensors_in(path)) {
        files.push_back(std::make_unique<CheckpointFile>(one, std::nullopt));
      }
      TORCH_CHECK(!files.empty(), path, " is not a checkpoint: it has neither ", kIndexName,
                  " nor safetensors files");
    }
    return files;
  });
}

}  // namespace distrun::internal
