// Compares distrun launch with other launchers; bench/README.md explains the output.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench/launch/launcher_process.h"
#include "bench/launch/launchers.h"
#include "bench/statistics.h"
#include "bench/store/pipe.h"
#include "common/os/temporary_folder.h"

namespace distrun::bench {

namespace {

using namespace std::chrono_literals;
using std::chrono::duration;
using std::chrono::steady_clock;
using Ms = duration<double, std::milli>;

constexpr int kFailing = 4, kHeld = 64;  // Workers.
constexpr auto kReadyMax = 60s;

struct Options {
  int rounds = 15;
  std::vector<int> workers = {2, 64, 512};
  Words launchers;
};

// Starts the workers of a run together; bench_worker.cc is the other side.
class WorkerBarrier {
 public:
  WorkerBarrier() {
    for (const char* name : {"/ready", "/go"}) {
      if (::mkfifo((folder() + name).c_str(), 0600) != 0) throw std::runtime_error("mkfifo");
    }
    // O_RDWR: neither side waits for the other to open.
    ready_.reset(::open((folder() + "/ready").c_str(), O_RDWR | O_CLOEXEC));
    go_.reset(::open((folder() + "/go").c_str(), O_RDWR | O_CLOEXEC));
  }

  const std::string& folder() const { return folder_.path(); }

  void wait_for(int workers) {
    const auto deadline = steady_clock::now() + kReadyMax;
    std::array<char, 64> bytes;
    while (workers > 0) {
      if (!readable_before(ready_.get(), deadline)) {
        throw std::runtime_error(fmt::format("{} workers did not start", workers));
      }
      workers -= static_cast<int>(
          ::read(ready_.get(), bytes.data(), std::min<std::size_t>(bytes.size(), workers)));
    }
  }

  void go() { go_.reset(); }

  steady_clock::time_point failed_at() const {
    std::int64_t ns = 0;
    if (!(std::ifstream(folder() + "/failed_at") >> ns)) {
      throw std::runtime_error("the failing worker wrote no time");
    }
    return steady_clock::time_point(std::chrono::nanoseconds(ns));
  }

 private:
  TemporaryFolder folder_ = TemporaryFolder::make(Environment::from(environ)).value();
  UniqueFd ready_, go_;
};

// From the launcher's start to its exit, in ms.
double launch_ms(const Launcher& launcher, int workers) {
  LauncherProcess run(launcher.command(workers, {"/bin/true"}));
  if (const int status = run.wait(); status != 0) {
    throw std::runtime_error(fmt::format("{} exited with status {}", launcher.name, status));
  }
  return Ms(run.ended_at() - run.started_at()).count();
}

// From a worker's failure to the launcher's exit, in ms.
double failure_ms(const Launcher& launcher) {
  WorkerBarrier barrier;
  LauncherProcess run(launcher.command(kFailing, {BENCH_WORKER, "fail", barrier.folder()}));
  barrier.wait_for(kFailing);
  barrier.go();
  if (run.wait() == 0) throw std::runtime_error(launcher.name + " did not see the failure");
  return Ms(run.ended_at() - barrier.failed_at()).count();
}

LauncherProcess::Memory peak_memory(const Launcher& launcher) {
  WorkerBarrier barrier;
  LauncherProcess run(launcher.command(kHeld, {BENCH_WORKER, "hold", barrier.folder()}));
  barrier.wait_for(kHeld);
  const auto memory = run.peak_memory("bench_worker");
  barrier.go();
  run.wait();
  return memory;
}

// Measures the launchers in turns, and returns medians by launcher.
template <class Measure>
std::map<std::string, double> in_turns(const std::vector<Launcher>& launchers, int rounds,
                                       int workers, const Measure& measure) {
  std::map<std::string, std::vector<double>> values;
  for (int round = 0; round < rounds; ++round) {
    for (const Launcher& launcher : launchers) {
      if (workers <= launcher.workers_max && round < launcher.rounds_max) {
        values[launcher.name].push_back(measure(launcher));
      }
    }
  }
  std::map<std::string, double> medians;
  for (const auto& [name, all] : values) medians[name] = median(all);
  return medians;
}

// Prints "| what
// 4.21
// 3.02
// – |": figures, then each divided by distrun's.
void print_row(const std::string& what, const std::vector<Launcher>& launchers,
               const std::map<std::string, double>& figures) {
  std::string row = fmt::format("| {:<28} |", what);
  const auto ours = figures.find("distrun");
  for (const Launcher& launcher : launchers) {
    const auto figure = figures.find(launcher.name);
    row += figure == figures.end() ? fmt::format(" {:>10} |", "")
                                   : fmt::format(" {:>10.2f} |", figure->second);
  }
  for (const Launcher& launcher : launchers) {
    if (launcher.name == "distrun") continue;
    const auto figure = figures.find(launcher.name);
    const bool both = figure != figures.end() && ours != figures.end();
    row += both ? fmt::format(" {:>10.2f} |", figure->second / ours->second)
                : fmt::format(" {:>10} |", "");
  }
  fmt::print("{}\n", row);
  std::fflush(stdout);
}

void print_head(const std::vector<Launcher>& launchers) {
  std::string names = fmt::format("| {:<28} |", ""), lines = fmt::format("|{:-<30}|", "");
  const auto add = [&](const std::string& name) {
    names += fmt::format(" {:>10} |", name);
    lines += fmt::format("{:-<11}:|", "");
  };
  for (const Launcher& launcher : launchers) add(launcher.name);
  for (const Launcher& launcher : launchers) {
    if (launcher.name != "distrun") add(launcher.name + "/d");
  }
  fmt::print("{}\n{}\n", names, lines);
  std::fflush(stdout);
}

void run(const Options& options) {
  Words left_out;
  const auto launchers = find_launchers(options.launchers, left_out);
  print_head(launchers);
  for (const int workers : options.workers) {
    // Many workers take long.
    const int rounds = workers > 64 ? std::max(1, options.rounds / 2) : options.rounds;
    print_row(fmt::format("/bin/true x{}, ms", workers), launchers,
              in_turns(launchers, rounds, workers, [workers](const Launcher& launcher) {
                return launch_ms(launcher, workers);
              }));
  }
  std::vector<Launcher> watching = launchers;
  std::erase_if(watching, [](const Launcher& launcher) { return !launcher.ends_on_failure; });
  print_row("failure to exit, ms", launchers,
            in_turns(watching, options.rounds, kFailing, failure_ms));
  std::map<std::string, int> processes;
  print_row("peak memory at x64, MiB", launchers,
            in_turns(launchers, 1, kHeld, [&](const Launcher& launcher) {
              const auto memory = peak_memory(launcher);
              processes[launcher.name] = memory.processes;
              return static_cast<double>(memory.kib) / 1024;
            }));
  fmt::print("\nMedians of {} rounds in turns, fewer where that takes long. Memory is that of:",
             options.rounds);
  for (const auto& [name, count] : processes) {
    fmt::print(" {} in {} process{};", name, count, count == 1 ? "" : "es");
  }
  fmt::print(" the workers' own is left out.\n");
  for (const std::string& line : left_out) fmt::print("Left out: {}.\n", line);
}

}  // namespace

}  // namespace distrun::bench

int main(int argc, char** argv) {
  using namespace distrun::bench;
  Options options;
  bool quick = false;
  CLI::App app("Compares distrun launch with other launchers: see bench/README.md.");
  app.add_flag("--quick", quick, "less of everything: for a first look");
  auto* rounds = app.add_option("--rounds", options.rounds, "how often each launcher has its turn")
                     ->check(CLI::Range(1, 1000))
                     ->capture_default_str();
  app.add_option("--workers", options.workers, "how many are started")
      ->delimiter(',')
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  app.add_option("--launchers", options.launchers, "only these: floor,distrun,hydra,torchrun")
      ->delimiter(',')
      ->check(CLI::IsMember({"floor", "distrun", "hydra", "torchrun"}));
  CLI11_PARSE(app, argc, argv);
  if (quick && rounds->empty()) options.rounds = 3;
  try {
    run(options);
  } catch (const std::exception& error) {
    fmt::print(stderr, "launch_bench: {}\n", error.what());
    return 1;
  }
}
