#include "launcher/private_folder.h"

#include <cstdlib>
#include <filesystem>

namespace distrun {

Result<PrivateFolder> PrivateFolder::make(const Environment& environment) {
  // Absolute, because a worker may change its folder.
  const std::string wanted = environment.get("TMPDIR").value_or("");
  std::error_code error;
  std::string path = std::filesystem::absolute(wanted.empty() ? "/tmp" : wanted, error).string();
  path += "/distrun_XXXXXX";
  if (error) return Error::from_errno("make a folder in " + wanted, error.value());
  if (::mkdtemp(path.data()) == nullptr) {
    Error failed = Error::from_errno("make a folder " + path);
    failed.message += ": TMPDIR must name a folder that is there and writable";
    return failed;
  }
  return PrivateFolder(path);
}

PrivateFolder::~PrivateFolder() {
  std::error_code ignored;  // A worker may still be writing there: then it stays.
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

}  // namespace distrun
