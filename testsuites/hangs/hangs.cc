// Hangs as hangs_test.py lists: hangs CASE. hangs.py is the same in Python.
#include <csignal>
#include <cstdio>
#include <future>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <ATen/Functions.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <unistd.h>

#include "distrun/collectives.h"
#include "distrun/process_group.h"

// Tests look for these names, so they are not in an unnamed namespace.
namespace hangs {

[[gnu::noinline]] void step(at::Tensor& x) { distrun::all_reduce(x); }

[[gnu::noinline]] void reduce_first(at::Tensor& x) {
  distrun::all_reduce(x);
  distrun::barrier();
}

[[gnu::noinline]] void meet_first(at::Tensor& x) {
  distrun::barrier();
  distrun::all_reduce(x);
}

int a_pipe(int end) {
  int ends[2];
  if (::pipe(ends) != 0) std::perror("pipe");
  return ends[end];
}

volatile bool goes_on = true;

[[gnu::noinline]] void load_batch() {
  char letter = 0;
  if (::read(a_pipe(0), &letter, 1) < 0) std::perror("read");
  goes_on = false;
}

[[gnu::noinline]] void be_stopped() {
  ::raise(SIGSTOP);
  goes_on = false;
}

[[gnu::noinline]] void spin() {
  volatile long count = 0;
  while (goes_on) count = count + 1;
}

[[gnu::noinline]] void wait_for_key() {
  distrun::default_group().getStore()->get("nobody/sets/this");
  goes_on = false;
}

[[gnu::noinline]] void log_all() {
  const int to = a_pipe(1);
  const std::string line(4096, 'x');
  while (goes_on && ::write(to, line.data(), line.size()) > 0) {
  }
}

[[gnu::noinline]] void take_lock(std::mutex& lock) {
  const std::lock_guard taken(lock);
  goes_on = false;
}

[[gnu::noinline]] void locked() {
  static std::mutex lock;
  std::promise<void> held;
  std::thread([&held] {
    const std::lock_guard taken(lock);
    held.set_value();
    load_batch();
  }).detach();
  held.get_future().wait();
  take_lock(lock);
}

}  // namespace hangs

int main(int argc, char** argv) {
  const std::string how = argc > 1 ? argv[1] : "";
  distrun::init_process_group("gloo");
  const int rank = distrun::get_rank();
  at::Tensor x = at::ones({4});
  hangs::step(x);
  if (how == "order") {
    rank == 0 ? hangs::reduce_first(x) : hangs::meet_first(x);
    return 0;
  }
  const std::map<std::string, std::pair<int, void (*)()>> cases = {
      {"absent", {2, hangs::load_batch}}, {"stopped", {1, hangs::be_stopped}},
      {"spinning", {3, hangs::spin}},     {"key", {1, hangs::wait_for_key}},
      {"pipe", {2, hangs::log_all}},      {"lock", {0, hangs::locked}}};
  const auto [culprit, act] = cases.at(how);
  if (rank == culprit) act();
  hangs::step(x);
  return 0;
}
