#include "launcher/run/private_folder.h"

#include <filesystem>

#include "common/os/temporary_folder.h"

namespace distrun {

Result<PrivateFolder> PrivateFolder::make(const Environment& environment) {
  auto folder = make_temporary_folder(environment, "distrun");
  if (!folder) return folder.error();
  return PrivateFolder(std::move(*folder));
}

PrivateFolder::~PrivateFolder() {
  std::error_code ignored;  // A worker may still be writing there: then it stays.
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

}  // namespace distrun
