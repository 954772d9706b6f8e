// Programs that hang in a known place, for tests: hung_program WHERE
//
// It prints a line when it is there. `read` continues when it reads a line from stdin: it prints
// its count, and exits with 0, or with 1 if a system call was interrupted.
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string_view>
#include <thread>

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

volatile std::sig_atomic_t signals = 0;
volatile bool goes_on = true;

void say(const char* line) {
  std::puts(line);
  std::fflush(stdout);
}

}  // namespace

// Tests look for these names, so they are not in an unnamed namespace.
namespace hung {

template <class Number>
[[gnu::noinline]] void spin(Number until) {
  say("here");
  while (goes_on) until += 1;
  if (until > 0) std::puts("not reached");
}

[[gnu::noinline]] void load_batch() {
  say("here");
  ::pause();
  std::puts("not reached");
}

// The call is inlined, from a header of the standard library.
[[gnu::noinline]] void take_lock(std::mutex& lock) {
  lock.lock();
  std::puts("not reached");
}

[[gnu::noinline]] int wait_for_line() {
  // The call restarts after SIGRTMIN; reading the stacks must not interrupt it.
  struct sigaction action {};
  action.sa_handler = [](int) { signals = signals + 1; };
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGRTMIN, &action, nullptr);
  say("here");
  char letter = 0;
  const auto got = ::read(STDIN_FILENO, &letter, 1);
  std::printf("%d\n", static_cast<int>(signals));
  return got == 1 ? 0 : 1;
}

[[gnu::noinline]] void in_a_thread() {
  load_batch();
  std::puts("not reached");
}

// Processes and threads start and end all the time.
[[noreturn, gnu::noinline]] void churn() {
  say("here");
  for (;;) {
    std::thread([] {}).join();
    const pid_t child = ::fork();
    if (child == 0) ::_exit(0);
    ::waitpid(child, nullptr, 0);
  }
}

}  // namespace hung

int main(int argc, char** argv) {
  const std::string_view where = argc > 1 ? argv[1] : "";
  if (where == "spin") hung::spin(0.0);
  if (where == "pause") hung::load_batch();
  if (where == "lock") {
    std::mutex lock;
    lock.lock();
    say("here");
    hung::take_lock(lock);
  }
  if (where == "read") return hung::wait_for_line();
  if (where == "churn") hung::churn();
  if (where == "thread") std::thread(hung::in_a_thread).join();
  return 2;
}
