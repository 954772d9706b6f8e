#include "launcher/log_folder.h"

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include <fcntl.h>

namespace distrun {

namespace {

// A new folder whose name begins with `path`.
Result<std::string> make_unique_folder(std::string path) {
  path += "_XXXXXX";
  if (::mkdtemp(path.data()) == nullptr) {
    Error error = Error::from_errno("make a folder " + path);
    error.message += "; --log-dir names where the log files go";
    return error;
  }
  return path;
}

}  // namespace

Result<std::string> make_log_folder(const LogChoice& choice, const std::string& run_id,
                                    const Environment& environment) {
  const std::string temporary = environment.get("TMPDIR").value_or("");
  const std::string wanted = !choice.folder.empty() ? choice.folder
                             : temporary.empty()    ? "/tmp"
                                                    : temporary;
  std::error_code error;
  std::string base = std::filesystem::absolute(wanted, error).string();
  if (!error && choice.folder.empty()) {
    auto made = make_unique_folder(base + "/distrun_logs");
    if (!made) return made.error();
    base = std::move(*made);
  } else if (!error) {
    std::filesystem::create_directories(base, error);
  }
  if (error) return Error::from_errno("make the folder " + wanted + " (--log-dir)", error.value());
  return make_unique_folder(base + "/" + folder_name(run_id));
}

Result<UniqueFd> open_log_file(const std::string& path) {
  UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666));
  if (!file) return Error::from_errno("open " + path);
  return file;
}

}  // namespace distrun
