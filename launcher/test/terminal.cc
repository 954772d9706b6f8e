#include "launcher/test/terminal.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <stdexcept>

#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>
#include <utmp.h>

namespace distrun::testing {

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kPatience{30};

}  // namespace

Terminal::Terminal(const std::vector<std::string>& arguments) {
  std::vector<char*> argv;
  argv.reserve(arguments.size() + 1);
  for (const auto& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  int screen = -1, keyboard = -1;
  if (::openpty(&screen, &keyboard, nullptr, nullptr, nullptr) != 0) {
    throw std::runtime_error("openpty");
  }
  termios settings{};
  ::tcgetattr(keyboard, &settings);
  settings.c_lflag |= NOFLSH;  // Otherwise Ctrl-C discards pending output.
  ::tcsetattr(keyboard, TCSANOW, &settings);
  pid_ = ::fork();
  if (pid_ < 0) throw std::runtime_error("fork");
  if (pid_ == 0) {
    ::login_tty(keyboard);
    ::close(screen);
    for (const int signal : {SIGINT, SIGQUIT, SIGTSTP, SIGHUP, SIGTERM}) ::signal(signal, SIG_DFL);
    ::execvp(argv[0], argv.data());
    ::_exit(127);
  }
  ::close(keyboard);
  screen_.reset(screen);
  ::fcntl(screen, F_SETFD, FD_CLOEXEC);
}

Terminal::~Terminal() {
  screen_.reset();
  if (pid_ < 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

void Terminal::type(const std::string& keys) {
  [[maybe_unused]] const auto size = ::write(screen_.get(), keys.data(), keys.size());
}

void Terminal::resize(int columns) {
  const winsize size{.ws_row = 24, .ws_col = static_cast<unsigned short>(columns)};
  ::ioctl(screen_.get(), TIOCSWINSZ, &size);
}

// False at the end of the output.
bool Terminal::read(int timeout_ms) {
  if (!screen_) return false;
  pollfd wait{screen_.get(), POLLIN, 0};
  if (::poll(&wait, 1, timeout_ms) <= 0) return true;
  std::array<char, 4096> buffer;
  const auto size = ::read(screen_.get(), buffer.data(), buffer.size());
  if (size <= 0) return false;  // EIO: no process has the terminal open.
  text_.append(buffer.data(), static_cast<std::size_t>(size));
  return true;
}

bool Terminal::is_shown(const std::string& text) {
  const std::size_t at = text_.find(text, seen_);
  if (at == std::string::npos) return false;
  seen_ = at + text.size();
  return true;
}

bool Terminal::wait_for(const std::string& text) {
  const auto deadline = Clock::now() + kPatience;
  while (!is_shown(text)) {
    if (Clock::now() >= deadline || !read(1000)) return false;
  }
  return true;
}

bool Terminal::type_until(const std::string& keys, const std::string& text) {
  const auto deadline = Clock::now() + kPatience;
  while (!is_shown(text)) {
    type(keys);
    if (Clock::now() >= deadline || !read(150)) return is_shown(text);
  }
  return true;
}

ProcessEnd Terminal::end() {
  const auto deadline = Clock::now() + kPatience;
  while (Clock::now() < deadline && read(1000)) continue;
  int status = 0;
  while (::waitpid(pid_, &status, WNOHANG) == 0) {
    if (Clock::now() >= deadline) ::kill(pid_, SIGKILL);
    ::poll(nullptr, 0, 1);
  }
  pid_ = -1;
  if (WIFEXITED(status)) return ExitedWith{WEXITSTATUS(status)};
  return KilledBy{WTERMSIG(status)};
}

}  // namespace distrun::testing
