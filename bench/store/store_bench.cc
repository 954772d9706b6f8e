// Compares our store with LibTorch's, side by side; bench/README.md explains the output.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <sys/resource.h>

#include "bench/statistics.h"
#include "bench/store/crew.h"
#include "bench/store/operations.h"
#include "bench/store/server_process.h"

namespace distrun::bench {

namespace {

using std::chrono::duration;

struct Options {
  int rounds = 5;
  std::vector<int> clients = {1, 8, 64, 256};
  double run_seconds = 0.3;  // Approximate, on the slower server.
  int fill_divisor = 1;      // Divides the number of keys of `fill`.
  std::string only;
};

enum Side { kLibuv, kOurs };
constexpr std::array kSides = {kLibuv, kOurs};
using Figures = std::array<double, 2>;

// Both servers, and the number of runs so far.
struct Servers {
  void start() {
    sides = {std::make_unique<ServerProcess>(LIBTORCH_SERVER),
             std::make_unique<ServerProcess>(DISTRUN_SERVER)};
  }

  std::array<std::unique_ptr<ServerProcess>, 2> sides;
  int runs = 0;  // The number of the last run.
};

// One operation with one number of clients, on both servers in turn.
class Series {
 public:
  Series(const Operation& operation, int clients, Servers& servers, const Options& options)
      : operation_(operation), clients_(clients), servers_(servers) {
    count_ = operation.count;
    if (count_ == 0) count_ = count_for(options.run_seconds);
    if (operation.fresh) count_ /= options.fill_divisor;
    for (int round = 0; round < options.rounds; ++round) {
      if (operation.fresh && round > 0) servers_.start();
      for (const Side side : kSides) record(side, run(side, count_));
    }
  }

  Figures rate() const { return medians(rates_); }         // Operations per second, of all clients.
  Figures cpu_us() const { return medians(cpu_us_); }      // Of the server, per operation.
  Figures grown() const { return medians(grown_bytes_); }  // Of the server, bytes per operation.

 private:
  using Lists = std::array<std::vector<double>, 2>;

  static Figures medians(const Lists& lists) { return {median(lists[0]), median(lists[1])}; }

  Sample run(Side side, int count) {
    const ServerProcess& server = *servers_.sides[side];
    const int number = ++servers_.runs;
    return measure(server, clients_, [&](int client) {
      return operation_.prepare({.port = server.port(),
                                 .client = client,
                                 .clients = clients_,
                                 .count = count,
                                 .run = number});
    });
  }

  // Operations per client that take the slower server about `seconds`.
  int count_for(double seconds) {
    const int count = std::max(20, 2000 / clients_);
    double longest = 0;
    for (const Side side : kSides) {
      longest = std::max(longest, duration<double>(run(side, count).wall).count());
    }
    return std::max(5, static_cast<int>(count * seconds / longest));
  }

  void record(Side side, const Sample& sample) {
    const auto operations = static_cast<double>(count_) * clients_;
    rates_[side].push_back(operations / duration<double>(sample.wall).count());
    cpu_us_[side].push_back(duration<double, std::micro>(sample.cpu).count() / operations);
    grown_bytes_[side].push_back(static_cast<double>(sample.grown_kib) * 1024 / operations);
  }

  const Operation& operation_;
  int clients_;
  Servers& servers_;
  int count_ = 0;
  Lists rates_, cpu_us_, grown_bytes_;
};

void print_row(const Series& series, std::string_view what, int clients) {
  const auto [libuv_rate, rate] = series.rate();
  const auto [libuv_cpu, cpu] = series.cpu_us();
  fmt::print(
      "| {:<8} | {:>7} | {:>10.0f} | {:>10.0f} | {:>5.2f} | {:>15.2f} | {:>14.2f} | {:>5.2f} |\n",
      what, clients, libuv_rate, rate, rate / libuv_rate, libuv_cpu, cpu, cpu / libuv_cpu);
  std::fflush(stdout);
}

void run(const Options& options) {
  fmt::print(
      "| what     | clients | libuv op/s |  ours op/s | ratio | libuv CPU µs/op | ours CPU µs/op | "
      "ratio |\n"
      "|----------|--------:|-----------:|-----------:|------:|----------------:|---------------:|-"
      "-----:|\n");
  std::fflush(stdout);
  std::string memory, compared;
  for (const Operation& operation : operations()) {
    if (!options.only.empty() && operation.name != options.only) continue;
    Servers servers;
    servers.start();
    compared = fmt::format("{} (libuv) and {} (ours)", servers.sides[kLibuv]->name(),
                           servers.sides[kOurs]->name());
    for (const int clients : options.clients) {
      if (operation.clients != 0 && operation.clients != clients) continue;
      const Series series(operation, clients, servers, options);
      print_row(series, operation.name, clients);
      if (!operation.fresh) continue;
      const auto [libuv, ours] = series.grown();
      memory = fmt::format(
          "Memory for a key and its value of 64 bytes: libuv {:.0f} B, ours {:.0f} B, ratio "
          "{:.2f}.\n",
          libuv, ours, ours / libuv);
    }
  }
  fmt::print(
      "\n{}Compared: {}; medians of {} rounds in turns, clients and server on one machine, "
      "whose noise is in every figure.\n",
      memory, compared, options.rounds);
}

// A server needs a descriptor per client.
void raise_descriptor_limit() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

}  // namespace distrun::bench

int main(int argc, char** argv) {
  using namespace distrun::bench;
  Options options;
  bool quick = false;
  std::vector<std::string> names;
  for (const Operation& operation : operations()) names.emplace_back(operation.name);

  CLI::App app(
      "Compares distrun's store with LibTorch's TCPStore server on libuv: see bench/README.md.");
  app.add_flag("--quick", quick, "less of everything: for a first look");
  auto* rounds = app.add_option("--rounds", options.rounds, "how often each server has its turn")
                     ->check(CLI::Range(1, 1000))
                     ->capture_default_str();
  app.add_option("--only", options.only, "only this operation")->check(CLI::IsMember(names));
  CLI11_PARSE(app, argc, argv);
  if (quick) {
    if (rounds->empty()) options.rounds = 3;
    options.clients.pop_back();
    options.run_seconds = 0.03;
    options.fill_divisor = 10;
  }
  try {
    raise_descriptor_limit();
    run(options);
  } catch (const std::exception& error) {
    fmt::print(stderr, "store_bench: {}\n", error.what());
    return 1;
  }
}
