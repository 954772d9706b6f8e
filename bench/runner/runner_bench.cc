// Compares distrun test with PyTorch's own harness; bench/README.md explains the output.
#include <array>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "bench/launch/launcher_process.h"
#include "bench/runner/python_harness.h"
#include "bench/statistics.h"
#include "common/os/temporary_folder.h"

namespace distrun::bench {

namespace {

using nlohmann::json;
using Words = std::vector<std::string>;
using Seconds = std::chrono::duration<double>;

constexpr std::chrono::minutes kRunMax{20};
constexpr int kEmptyTests = 20;  // Per run.

struct Options {
  int rounds = 5;
  std::string against_python;
  std::string python = TORCH_PYTHON;
  Words only;
};

// PyTorch's file for each suite.
struct Seed {
  const char* suite;
  const char* file;
};
constexpr std::array kSeeds = {Seed{"gloo", "test_c10d_gloo.py"},
                               Seed{"spawn", "test_c10d_spawn_gloo_cpu.py"},
                               Seed{"join", "test_join.py"}, Seed{"fake", "test_fake_pg.py"}};

struct Run {
  double seconds = 0;
  json results;
};

Run run_tests(const Words& arguments) {
  const TemporaryFolder folder = TemporaryFolder::make(Environment::from(environ)).value();
  const std::string file = folder.path() + "/results.json";
  Words words = {DISTRUN_PROGRAM, "test", "--json", file};
  words.insert(words.end(), arguments.begin(), arguments.end());
  LauncherProcess process(words);
  const int status = process.wait(kRunMax);
  if (status != 0) throw std::runtime_error(fmt::format("distrun test exited with {}", status));
  std::ifstream text(file);
  return {Seconds(process.ended_at() - process.started_at()).count(), json::parse(text)};
}

double median_seconds(int rounds, const Words& arguments) {
  std::vector<double> seconds;
  for (int round = 0; round < rounds; ++round) seconds.push_back(run_tests(arguments).seconds);
  return median(seconds);
}

void print_row(const std::string& what, double ours, double pythons, const char* unit) {
  fmt::print("| {:<44} | {:>9.2f} {:<2} |", what, ours, unit);
  if (pythons > 0) {
    fmt::print(" {:>9.2f} {:<2} | {:>6.0f} |\n", pythons, unit, pythons / ours);
  } else {
    fmt::print(" {:>12} | {:>6} |\n", "", "");
  }
  std::fflush(stdout);
}

// The cost of one more test: a run of many minus a run of one.
double empty_test_ms(int rounds, const std::string& id) {
  const Words one = {"--binary", EMPTY_TESTS, "-j", "4", id};
  Words many = one;
  many.insert(many.end(), {"--repeat", std::to_string(kEmptyTests + 1)});
  std::vector<double> ms;
  for (int round = 0; round < rounds; ++round) {
    ms.push_back((run_tests(many).seconds - run_tests(one).seconds) * 1000 / kEmptyTests);
  }
  return median(ms);
}

void empty_tests(const Options& options, const PythonHarness* python) {
  std::map<std::string, double> pythons;
  const std::string none = "bench.Empty.test_4_ranks";
  const std::string group = "bench.Empty.test_group_of_4_ranks";
  if (python != nullptr) pythons = python->run(EMPTY_TESTS_PY, "bench", {none, group});
  print_row("a test of 4 ranks that does nothing", empty_test_ms(options.rounds, none),
            pythons[none] * 1000, "ms");
  print_row("a test of 4 ranks that makes a gloo group", empty_test_ms(options.rounds, group),
            pythons[group] * 1000, "ms");
}

// The ids of the tests that passed, which need no GPU.
std::set<std::string> ours_passed(const json& results) {
  std::set<std::string> ids;
  for (const json& test : results.at("tests")) {
    if (test.at("status") == "passed") ids.insert(test.at("id"));
  }
  return ids;
}

// Times the tests that pass in both harnesses.
void against_python(const Options& options, const PythonHarness& python, const Seed& seed,
                    const std::set<std::string>& ours) {
  const auto file = std::filesystem::path(options.against_python) / seed.file;
  if (!std::filesystem::exists(file)) return;
  std::set<std::string> both;
  for (const std::string& id : python.ids(file, seed.suite)) {
    if (ours.contains(id)) both.insert(id);
  }
  if (both.empty()) return;
  const auto pythons = python.run(file, seed.suite, both);
  if (pythons.empty()) return;
  Words ids;
  double sum = 0;
  for (const auto& [id, seconds] : pythons) {
    ids.push_back(id);
    sum += seconds;
  }
  print_row(fmt::format("{}: {} tests that both pass", seed.suite, ids.size()),
            median_seconds(options.rounds, ids), sum, "s");
  for (const std::string& id : both) {
    if (!pythons.contains(id)) fmt::print("Left out: {} does not pass in Python.\n", id);
  }
}

void run(const Options& options) {
  const PythonHarness python(options.python, PYTEST_PACKAGES);
  const bool compare = !options.against_python.empty();
  fmt::print("| {:<44} | {:>12} | {:>12} | {:>6} |\n|{:-<46}|{:->13}:|{:->13}:|{:->7}:|\n", "",
             "distrun", compare ? "PyTorch" : "", compare ? "ratio" : "", "", "", "", "");
  empty_tests(options, compare ? &python : nullptr);
  std::vector<double> seconds;
  std::set<std::string> ours;
  for (int round = 0; round < options.rounds; ++round) {
    const Run all = run_tests(options.only);
    seconds.push_back(all.seconds);
    ours = ours_passed(all.results);
  }
  print_row(fmt::format("our {} tests that need no GPU", ours.size()), median(seconds), 0, "s");
  for (const Seed& seed : kSeeds) {
    if (compare) against_python(options, python, seed, ours);
  }
  fmt::print("\nMedians of {} rounds{}.\n", options.rounds, compare ? ", PyTorch's of one" : "");
}

}  // namespace

}  // namespace distrun::bench

int main(int argc, char** argv) {
  using namespace distrun::bench;
  Options options;
  bool quick = false;
  CLI::App app("Compares distrun test with PyTorch's own harness: see bench/README.md.");
  app.add_flag("--quick", quick, "one round: for a first look");
  app.add_option("--rounds", options.rounds, "how often our tests are run")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--against-python", options.against_python,
                 "a folder with PyTorch's test_c10d_gloo.py and the like")
      ->check(CLI::ExistingDirectory);
  app.add_option("--python", options.python, "a Python that has torch")->capture_default_str();
  app.add_option("--only", options.only, "ids or prefixes, as distrun test takes them");
  CLI11_PARSE(app, argc, argv);
  if (quick) options.rounds = 1;
  try {
    run(options);
  } catch (const std::exception& error) {
    fmt::print(stderr, "runner_bench: {}\n", error.what());
    return 1;
  }
}
