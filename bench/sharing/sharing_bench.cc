// Compares TensorQueue with torch.multiprocessing.Queue; bench/README.md explains the output.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include <ATen/ops/ones.h>
#include <CLI/CLI.hpp>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/statistics.h"
#include "distrun/shared_tensor.h"
#include "distrun/tensor_queue.h"

namespace {

using Times = std::vector<double>;  // Microseconds, per round.

struct Options {
  bool quick = false;
  int rounds = 200;
  std::vector<std::int64_t> mebibytes = {1, 1024};
  std::string python = TORCH_PYTHON;
};

Options parse(int argc, char** argv) {
  Options options;
  CLI::App app("Compares queues that carry tensors between processes: see bench/README.md.");
  app.add_flag("--quick", options.quick, "twenty rounds: for a first look");
  app.add_option("--rounds", options.rounds, "tensors to hand over; the first is not counted")
      ->check(CLI::Range(2, 100000))
      ->capture_default_str();
  app.add_option("--mebibytes", options.mebibytes, "sizes of tensors")
      ->delimiter(',')
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  app.add_option("--python", options.python, "a Python that has torch")->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error));
  }
  if (options.quick) options.rounds = 20;
  return options;
}

// Python's time.monotonic_ns() reads the same clock.
std::int64_t now() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

[[noreturn]] void receive(const distrun::TensorQueue& tensors, const distrun::TensorQueue& times) {
  for (;;) {
    const auto item = tensors.get();
    const std::int64_t at = now();
    if (item.tensors.empty()) ::_exit(0);
    times.put({{}, std::to_string(at)});
  }
}

std::vector<Times> measure_ours(const Options& options) {
  const distrun::TensorQueue tensors(4), times(4);
  const pid_t receiver = ::fork();
  if (receiver == 0) receive(tensors, times);
  std::vector<Times> all;
  for (const std::int64_t size : options.mebibytes) {
    const at::Tensor tensor = at::ones({size << 20}, at::kByte);
    distrun::share_memory_(tensor);
    Times& taken = all.emplace_back();
    for (int round = 0; round < options.rounds; ++round) {
      const std::int64_t start = now();
      tensors.put(tensor);
      taken.push_back(static_cast<double>(std::stoll(times.get().text) - start) / 1e3);
    }
  }
  tensors.put(distrun::TensorQueue::Item());
  ::waitpid(receiver, nullptr, 0);
  return all;
}

std::vector<Times> measure_pythons(const Options& options) {
  std::string command =
      "'" + options.python + "' '" SHARING_QUEUE_PY "' " + std::to_string(options.rounds);
  for (const std::int64_t size : options.mebibytes) command += " " + std::to_string(size << 20);
  std::FILE* output = ::popen(command.c_str(), "r");
  std::string text;
  char part[4096];
  while (output != nullptr && std::fgets(part, sizeof(part), output) != nullptr) text += part;
  if (output == nullptr || ::pclose(output) != 0) {
    std::fprintf(stderr, "sharing_bench: %s failed\n", command.c_str());
    std::exit(1);
  }
  std::vector<Times> all;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream numbers(line);
    Times& taken = all.emplace_back();
    for (double nanoseconds; numbers >> nanoseconds;) taken.push_back(nanoseconds / 1e3);
  }
  return all;
}

void print(const Options& options, std::vector<Times> ours, std::vector<Times> pythons) {
  std::printf(
      "| from put to get of | distrun, us |  Python, us |       least |       least | Python/d |\n"
      "|--------------------|------------:|------------:|------------:|------------:|---------:|"
      "\n");
  for (std::size_t i = 0; i < options.mebibytes.size(); ++i) {
    for (Times* times : {&ours[i], &pythons.at(i)}) times->erase(times->begin());
    const double our = distrun::bench::median(ours[i]);
    const double their = distrun::bench::median(pythons[i]);
    std::printf("| %14ld MiB | %11.1f | %11.1f | %11.1f | %11.1f | %8.1f |\n",
                static_cast<long>(options.mebibytes[i]), our, their,
                *std::ranges::min_element(ours[i]), *std::ranges::min_element(pythons[i]),
                their / our);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  if (options.python.empty()) {
    std::fprintf(stderr, "sharing_bench: no Python with torch to compare with: pass --python\n");
    return 1;
  }
  print(options, measure_ours(options), measure_pythons(options));
}
