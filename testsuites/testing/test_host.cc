#include "testsuites/testing/test_host.h"

#include <array>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

#include <fcntl.h>
#include <unistd.h>

#include "testsuites/harness/host/test_host.h"
#include "testsuites/testing/early_operations.h"
#include "testsuites/testing/registry.h"
#include "testsuites/testing/run_rank.h"

namespace distrun {

namespace {

bool is_executed(const ForkRank& fork) { return fork.fresh || !fork.under.empty(); }

bool has_touched_gpu() {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", error)) {
    const auto target = std::filesystem::read_symlink(entry.path(), error).string();
    if (target.starts_with("/dev/nvidia")) return true;
  }
  return false;
}

std::optional<std::string> what_forbids_a_fork(const ForkRank& fork) {
  if (is_executed(fork)) return std::nullopt;
  const std::string remedy =
      ": move what is at namespace scope into the test, or run it with --isolation exec";
  // First, because operations may start threads.
  if (operations_so_far() > 0) return "the test host ran a tensor operation before main()" + remedy;
  std::error_code error;
  const std::filesystem::directory_iterator tasks("/proc/self/task", error);
  const auto threads = std::distance(begin(tasks), end(tasks));
  if (threads > 1) {
    return "the test host has " + std::to_string(threads) + " threads, but a fork copies only one" +
           remedy;
  }
  if (has_touched_gpu()) return "the test host has used a GPU, which its forks cannot use" + remedy;
  return std::nullopt;
}

// This program again, alone or under a debugger's command.
[[noreturn]] void execute_afresh(const ForkRank& fork, const UniqueFd& result) {
  std::array<char, 4096> path{};
  if (::readlink("/proc/self/exe", path.data(), path.size() - 1) < 0) fail_in_rank("find itself");
  ::setenv(kRankOfVariable, fork.test.c_str(), 1);
  ::setenv(kResultVariable, std::to_string(result.get()).c_str(), 1);
  ::fcntl(result.get(), F_SETFD, 0);
  execute_in_rank(fork, {path.data()});
}

void run_forked_rank(const ForkRank& fork, UniqueFd result) {
  if (::chdir(fork.folder.c_str()) != 0) fail_in_rank("enter " + fork.folder);
  if (is_executed(fork)) execute_afresh(fork, result);
  allow_operations();
  run_rank(fork.test, std::move(result));
}

}  // namespace

void serve_registered_tests(int socket) {
  serve_tests(socket, {.tests = registered_tests(),
                       .what_forbids = what_forbids_a_fork,
                       .run_rank = run_forked_rank});
}

}  // namespace distrun
