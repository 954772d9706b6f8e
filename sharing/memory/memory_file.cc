#include "sharing/memory/memory_file.h"

#include <cerrno>

#include <c10/util/Exception.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "common/units.h"
#include "distrun/result.h"
#include "sharing/memory/memory_left.h"

namespace distrun::internal {

namespace {

rlim_t file_size_limit() {
  rlimit limit{};
  ::getrlimit(RLIMIT_FSIZE, &limit);
  return limit.rlim_cur;
}

void check_memory_call(bool is_good, const std::string& doing, const char* what) {
  if (is_good) return;
  const int error_number = errno;
  const char* advice = "";
  if (error_number == EMFILE || error_number == ENFILE) {
    advice = ": each shared object needs a descriptor: raise `ulimit -n`";
  } else if (error_number == ENOSPC || error_number == ENOMEM) {
    advice = ": not enough memory";
  }
  TORCH_CHECK(false, doing, ": ", Error::from_errno(what, error_number).message, advice);
}

// Using more memory than exists would get some process killed. Small sizes are not checked.
void check_there_is_memory(std::size_t bytes, const std::string& doing) {
  constexpr std::size_t kSmall = 16 * kMiB;
  if (bytes < kSmall) return;
  const auto left = memory_left();
  TORCH_CHECK(!left || bytes <= *left, doing, ": not enough memory, only ", *left,
              " bytes are left");
}

}  // namespace

bool may_be_file_size(std::size_t bytes) {
  const rlim_t limit = file_size_limit();
  return limit == RLIM_INFINITY || bytes <= limit;
}

UniqueFd make_memory_file(const char* name, std::size_t bytes, const std::string& doing) {
  TORCH_CHECK(may_be_file_size(bytes), doing, ": `ulimit -f` allows no more than ",
              file_size_limit(), " bytes");
  check_there_is_memory(bytes, doing);
  UniqueFd file(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  check_memory_call(static_cast<bool>(file), doing, "memfd_create");
  if (bytes == 0) return file;
  int done = -1;
  do {
    done = ::fallocate(file.get(), 0, 0, static_cast<off_t>(bytes));
  } while (done != 0 && errno == EINTR);
  check_memory_call(done == 0, doing, "fallocate");
  return file;
}

}  // namespace distrun::internal
