// Programs whose file, main() or descriptors are unusual:
//
//     spawn_without_call                 main() does not call run_if_spawned()
//     spawn_without_call unlinked        main() calls it, and deletes its program before spawn()
//     spawn_without_call late            the process never takes its call; the timeout is 500 ms
//     spawn_without_call "one late" PATH one process never takes its call, the other exits; the
//                                        first one creates the file PATH
//     spawn_without_call limited         the process has too few descriptors for its arguments
//     spawn_without_call closed          0, 1 and 2 are closed during spawn()
//     spawn_without_call "closed, fork"
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "distrun/shared_tensor.h"
#include "distrun/spawn.h"

namespace {

using std::chrono::milliseconds;

constexpr std::chrono::minutes kLong{1};
constexpr std::size_t kMoreThanASocketHas = 3'000'000;

void greet(int index, distrun::SpawnArguments& arguments) {
  std::printf("process %d was told %.5s\n", index, arguments.text.c_str());
}
const distrun::SpawnFunction kGreet("greet", greet);

void say_much() {
  for (int i = 0; i < 3000; ++i) {
    std::printf("%0100d\n", i);
    std::fprintf(stderr, "%0100d\n", i);
  }
  std::fflush(stdout);
  char byte;
  TORCH_CHECK(::read(STDIN_FILENO, &byte, 1) == 0, "there is no stdin");
}

const distrun::SpawnFunction kSayMuch("say much",
                                      [](int, distrun::SpawnArguments&) { say_much(); });

void come_late() {
  ::signal(SIGALRM, [](int) {
    [[maybe_unused]] const auto written = ::write(STDOUT_FILENO, "it has not been killed\n", 23);
    ::_exit(1);
  });
  ::alarm(15);
  for (;;) ::pause();
}

// Runs before run_if_spawned().
void prepare(std::string_view mode, const char* path) {
  if (std::getenv("DISTRUN_SPAWNED") == nullptr) return;
  if (mode == "late") come_late();
  if (mode == "one late") {
    if (::open(path, O_CREAT | O_EXCL | O_CLOEXEC, 0600) >= 0) come_late();
    ::_exit(5);
  }
  if (mode == "limited") {
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = 20;
    ::setrlimit(RLIMIT_NOFILE, &limit);
  }
}

void spawn_with_too_many_tensors() {
  std::vector<at::Tensor> tensors;
  for (int i = 0; i < 200; ++i) tensors.push_back(at::zeros({1}));
  distrun::spawn(kGreet, 1, {.arguments = {.tensors = tensors}, .timeout = kLong});
}

void spawn_while_closed(bool is_fork) {
  const at::Tensor tensor = distrun::share_memory_(at::zeros({1000}));
  const int out = ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 100);
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::close(fd);
  std::string text = "it succeeded";
  try {
    if (is_fork) {
      distrun::spawn([](int) { say_much(); }, 1,
                     {.start_method = distrun::StartMethod::kFork,
                      .timeout = std::chrono::seconds(5),
                      .grace_period = milliseconds(0)});
    } else {
      distrun::spawn(kSayMuch, 1, {.arguments = {.tensors = {tensor}}, .timeout = kLong});
    }
  } catch (const c10::Error& error) {
    text = error.what_without_backtrace();
  }
  ::dup2(out, STDOUT_FILENO);
  const bool is_zero = tensor.equal(at::zeros({1000}));
  std::printf("%s, and the tensor is %s\n", text.c_str(), is_zero ? "unchanged" : "changed");
}

void spawn_as(std::string_view mode) {
  if (mode == "limited") return spawn_with_too_many_tensors();
  if (mode.starts_with("closed")) return spawn_while_closed(mode == "closed, fork");
  const bool is_late = mode == "late" || mode == "one late";
  const std::string text = "hello" + std::string(is_late ? kMoreThanASocketHas : 0, 'x');
  const auto timeout = mode == "late" ? milliseconds(500) : milliseconds(kLong);
  distrun::spawn(
      kGreet, mode == "one late" ? 2 : 1,
      {.arguments = {.text = text}, .timeout = timeout, .grace_period = milliseconds(0)});
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view mode = argc > 1 ? argv[1] : "";
  if (!mode.empty()) {
    prepare(mode, argv[argc - 1]);
    distrun::run_if_spawned();
  }
  if (mode == "unlinked") ::unlink(argv[0]);
  try {
    spawn_as(mode);
  } catch (const c10::Error& error) {
    std::printf("%s\n", error.what_without_backtrace());
    return 3;
  }
}
