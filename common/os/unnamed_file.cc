#include "common/os/unnamed_file.h"

#include <cstdlib>

#include <fcntl.h>
#include <unistd.h>

namespace distrun {

Result<UniqueFd> make_unnamed_file(const std::string& folder) {
  UniqueFd file(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (file) return file;
  // Some file systems, such as NFS, have only files with names.
  std::string path = folder + "/.distrun_XXXXXX";
  file.reset(::mkostemp(path.data(), O_CLOEXEC));
  if (!file) return Error::from_errno("make a file in " + folder);
  ::unlink(path.c_str());
  return file;
}

std::string path_of_descriptor(int fd) { return "/proc/self/fd/" + std::to_string(fd); }

}  // namespace distrun
