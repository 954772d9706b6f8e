#include "launcher/run/log_folder.h"

#include <filesystem>
#include <system_error>

#include <fcntl.h>

#include "common/os/temporary_folder.h"

namespace distrun {

Result<std::string> make_log_folder(const LogChoice& choice, const std::string& run_id,
                                    const Environment& environment) {
  std::string base;
  if (choice.folder.empty()) {
    auto made = make_temporary_folder(environment, "distrun_logs");
    if (!made) return made.error();
    base = std::move(*made);
  } else {
    std::error_code error;
    base = std::filesystem::absolute(choice.folder, error).string();
    if (!error) std::filesystem::create_directories(base, error);
    if (error) {
      return Error::from_errno("make the folder " + choice.folder + " (--log-dir)", error.value());
    }
  }
  auto folder = make_unique_folder(base + "/" + folder_name(run_id));
  if (folder) return folder;
  Error error = folder.error();
  error.message += "; choose another folder with --log-dir";
  return error;
}

Result<UniqueFd> open_log_file(const std::string& path) {
  UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666));
  if (!file) return Error::from_errno("open " + path);
  return file;
}

}  // namespace distrun
