#include "sharing/spawn/test/spawn_fixture.h"

#include <cerrno>
#include <filesystem>
#include <ostream>
#include <stdexcept>

#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "distrun/result.h"

namespace distrun::testing {

Watch::Watch(pid_t pid) : pidfd_(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))) {
  const bool is_gone = !pidfd_ && errno == ESRCH;
  if (!pidfd_ && !is_gone) throw std::runtime_error(Error::from_errno("pidfd_open").message);
}

bool Watch::has_ended(std::chrono::milliseconds within) const {
  if (!pidfd_) return true;
  pollfd wait{pidfd_.get(), POLLIN, 0};
  return ::poll(&wait, 1, static_cast<int>(within.count())) == 1;
}

void Watch::send(int signal) const {
  ::syscall(SYS_pidfd_send_signal, pidfd_.get(), signal, nullptr, 0);
}

HeldResources HeldResources::now() {
  HeldResources held;
  const auto names = [](const char* folder) {
    std::set<std::string> found;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
      found.insert(entry.path().filename().string());
    }
    return found;
  };
  for (const std::string& number : names("/proc/self/fd")) {
    std::error_code error;
    const auto target = std::filesystem::read_symlink("/proc/self/fd/" + number, error);
    if (!error) held.descriptors.insert(number + " " + target.string());
  }
  siginfo_t info{};
  held.has_children = ::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
  return held;
}

std::ostream& operator<<(std::ostream& out, const HeldResources& held) {
  for (const std::string& descriptor : held.descriptors) out << descriptor << '\n';
  return out << (held.has_children ? "children" : "no children");
}

void wait_to_be_ended() {
  for (;;) ::pause();
}

}  // namespace distrun::testing
